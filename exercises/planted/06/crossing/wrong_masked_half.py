# Fails: test_crossing_lesson, test_crossing_others
def crossing(sizes):
    query = sizes["query_heads"] * sizes["head_size"]
    kept = sizes["kv_heads"] * sizes["head_size"]
    layer = sizes["hidden"] * (2 * query + 2 * kept + 3 * sizes["mlp"])
    head = sizes["vocabulary"] * sizes["hidden"]
    n = 1
    while 4 * query * sizes["layers"] * n * n < 2 * (
        sizes["layers"] * layer * n + head
    ):
        n += 1
    return n
