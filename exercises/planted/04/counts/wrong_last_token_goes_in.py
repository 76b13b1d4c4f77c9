# Fails: test_positions_with, test_looks_with, test_kept_bytes
counts = {
    "positions_without": 54_950,
    "positions_with": 600,
    "looks_with": 600 * 601 // 2,
    "kept_bytes": 600 * 2 * 30 * 3 * 64 * 4,
}
