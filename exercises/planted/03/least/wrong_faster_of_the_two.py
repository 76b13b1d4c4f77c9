# Fails: test_least_seconds
def least(weights, size, positions, flop_per_s, bytes_per_s):
    arithmetic = 2 * weights * positions / flop_per_s
    reading = weights * size / bytes_per_s
    word = "arithmetic" if arithmetic > reading else "reading"
    return min(arithmetic, reading), word
