# Fails: test_least_seconds, test_least_limit
def least(weights, size, positions, flop_per_s, bytes_per_s):
    arithmetic = weights * positions / flop_per_s
    reading = weights * size / bytes_per_s
    word = "arithmetic" if arithmetic > reading else "reading"
    return max(arithmetic, reading), word
