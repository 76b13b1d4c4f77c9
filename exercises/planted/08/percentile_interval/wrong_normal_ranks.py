# Fails: all
from math import ceil, floor, sqrt
from statistics import NormalDist


def percentile_interval(values, q, confidence):
    ordered, n, p = sorted(values), len(values), q / 100
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    half = z * sqrt(n * p * (1 - p))
    low, high = floor(n * p - half), ceil(n * p + half)
    return (
        ordered[low - 1] if low >= 1 else None,
        ordered[high - 1] if high <= n else None,
    )
