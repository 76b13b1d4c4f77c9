# Fails: all
values = LAYERS * KV_HEADS * HEAD_SIZE
mib = {
    "one": 8192 * values * 2 / 2**20,
    "sixteen": 16 * 2000 * values / 2**20,
    "unshared": 8192 * values * 2 * 4 / 2**20,
}
