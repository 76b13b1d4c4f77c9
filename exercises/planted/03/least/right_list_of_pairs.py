def least(weights, size, positions, flop_per_s, bytes_per_s):
    return list(
        max(
            (2 * weights / flop_per_s * positions, "arithmetic"),
            (size * weights / bytes_per_s, "reading"),
        )
    )
