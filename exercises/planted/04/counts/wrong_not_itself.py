# Fails: test_looks_with
counts = {
    "positions_without": 54_950,
    "positions_with": 599,
    "looks_with": 599 * 598 // 2,
    "kept_bytes": 599 * 2 * 30 * 3 * 64 * 4,
}
