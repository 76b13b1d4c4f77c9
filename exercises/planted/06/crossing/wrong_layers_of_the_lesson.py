# Fails: test_crossing_others
def crossing(sizes):
    query = sizes["query_heads"] * sizes["head_size"]
    kept = sizes["kv_heads"] * sizes["head_size"]
    layer = sizes["hidden"] * (2 * query + 2 * kept + 3 * sizes["mlp"])
    head = sizes["vocabulary"] * sizes["hidden"]
    n = 1
    while 2 * query * 30 * n * (n + 1) < 2 * (30 * layer * n + head):
        n += 1
    return n
