# Fails: all
def cache_bytes(config, lengths, dtype):
    kv_heads = 1
    size = config["hidden_size"]
    values = 2 * config["num_hidden_layers"] * kv_heads * size
    return sum(lengths) * values * BITS[dtype] // 8
