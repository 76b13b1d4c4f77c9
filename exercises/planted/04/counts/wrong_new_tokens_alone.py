# Fails: test_positions_with, test_looks_with
counts = {
    "positions_without": 54_950,
    "positions_with": 99,
    "looks_with": sum(range(501, 600)),
    "kept_bytes": 599 * 2 * 30 * 3 * 64 * 4,
}
