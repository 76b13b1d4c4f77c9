# Fails: test_cache_missing
def cache_bytes(config, lengths, dtype):
    query_heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", query_heads)
    size = config.get("head_dim", config["hidden_size"] // query_heads)
    values = 2 * config["num_hidden_layers"] * kv_heads * size
    return sum(lengths) * values * BITS[dtype] // 8
