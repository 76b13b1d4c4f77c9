# Fails: all
from math import comb


def percentile_interval(values, q, confidence):
    n, p, miss = len(values), q / 100, (1 - confidence) / 2
    chances = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    ranks = range(1, n + 1)
    lows = [r for r in ranks if sum(chances[:r]) <= miss]
    highs = [n + 1 - lows[-1]] if lows else []
    ordered = sorted(values)
    low = ordered[lows[-1] - 1] if lows else None
    high = ordered[highs[0] - 1] if highs else None
    return low, high
