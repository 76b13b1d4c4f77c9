import math


def crossing(sizes):
    width = sizes["query_heads"] * sizes["head_size"]
    kept = sizes["kv_heads"] * sizes["head_size"]
    layer = sizes["hidden"] * (2 * (width + kept) + 3 * sizes["mlp"])
    head = sizes["vocabulary"] * sizes["hidden"] / sizes["layers"]
    # width (n^2 + n) = layer n + head
    b = layer - width
    root = (b + math.sqrt(b * b + 4 * width * head)) / (2 * width)
    return max(1, math.ceil(root - 1e-9))
