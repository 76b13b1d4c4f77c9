# Fails: all
from statistics import NormalDist, stdev


def percentile_interval(values, q, confidence):
    if len(values) < 2:
        return None, None
    middle = sorted(values)[int((len(values) - 1) * q / 100)]
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    half = z * stdev(values) / len(values) ** 0.5
    return middle - half, middle + half
