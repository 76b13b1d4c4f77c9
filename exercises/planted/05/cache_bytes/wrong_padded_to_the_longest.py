# Fails: test_cache_conversations
def cache_bytes(config, lengths, dtype):
    query_heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or query_heads
    size = config.get("head_dim") or config["hidden_size"] // query_heads
    values = 2 * config["num_hidden_layers"] * kv_heads * size
    return len(lengths) * max(lengths, default=0) * values * BITS[dtype] // 8
