# Fails: test_least_limit
def least(weights, size, positions, flop_per_s, bytes_per_s):
    arithmetic = 2 * weights * positions / flop_per_s
    reading = weights * size / bytes_per_s
    word = "reading" if arithmetic > reading else "arithmetic"
    return max(arithmetic, reading), word
