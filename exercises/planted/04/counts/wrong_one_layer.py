# Fails: test_kept_bytes
counts = {
    "positions_without": 54_950,
    "positions_with": 599,
    "looks_with": 599 * 600 // 2,
    "kept_bytes": 599 * 2 * 3 * 64 * 4,
}
