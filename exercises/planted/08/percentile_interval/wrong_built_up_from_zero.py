# Fails: test_both_ends, test_no_high, test_confidence
def percentile_interval(values, q, confidence):
    x = sorted(values)
    n = len(x)
    p = q / 100
    allowed = (1 - confidence) / 2
    low = high = None
    chance = (1 - p) ** n
    below = 0.0
    for k in range(n):
        # chance is P(K = k), below is P(K < k).
        below += chance
        if below <= allowed:
            low = x[k]
        if high is None and 1 - below <= allowed:
            high = x[k]
        chance *= (n - k) / (k + 1) * p / (1 - p)
    return low, high
