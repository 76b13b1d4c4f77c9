# Fails: all
values = 2 * LAYERS * KV_HEADS * HEAD_SIZE
mib = {
    "one": 8192 * values * 2 / 1e6,
    "sixteen": 16 * 2000 * values / 1e6,
    "unshared": 8192 * values * 2 * 4 / 1e6,
}
