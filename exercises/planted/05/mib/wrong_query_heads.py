# Fails: test_mib_one, test_mib_sixteen, test_mib_unshared
values = 2 * LAYERS * QUERY_HEADS * HEAD_SIZE
mib = {
    "one": 8192 * values * 2 / 2**20,
    "sixteen": 16 * 2000 * values / 2**20,
    "unshared": 8192 * values * 2 / 2**20,
}
