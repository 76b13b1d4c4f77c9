import numpy as np


def cache_bytes(config, lengths, dtype):
    heads = config["num_attention_heads"]
    kept = config.get("num_key_value_heads")
    size = config.get("head_dim")
    factors = [
        2,
        config["num_hidden_layers"],
        heads if kept is None else kept,
        config["hidden_size"] / heads if size is None else size,
        np.sum(lengths),
    ]
    return np.prod(factors) * BITS[dtype] / 8
