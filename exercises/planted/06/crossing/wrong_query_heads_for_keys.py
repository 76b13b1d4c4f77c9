# Fails: test_crossing_lesson, test_crossing_others
def crossing(sizes):
    query = sizes["query_heads"] * sizes["head_size"]
    kept = sizes["query_heads"] * sizes["head_size"]
    layer = sizes["hidden"] * (2 * query + 2 * kept + 3 * sizes["mlp"])
    head = sizes["vocabulary"] * sizes["hidden"]
    n = 1
    while 2 * query * sizes["layers"] * n * (n + 1) < 2 * (
        sizes["layers"] * layer * n + head
    ):
        n += 1
    return n
