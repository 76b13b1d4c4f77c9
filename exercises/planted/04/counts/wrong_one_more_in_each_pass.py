# Fails: test_positions_without
counts = {
    "positions_without": sum(range(501, 601)),
    "positions_with": 599,
    "looks_with": 599 * 600 // 2,
    "kept_bytes": 599 * 2 * 30 * 3 * 64 * 4,
}
