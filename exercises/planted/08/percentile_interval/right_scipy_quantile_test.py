import math

from scipy.stats import quantile_test


def percentile_interval(values, q, confidence):
    if not values:
        return None, None
    result = quantile_test(values, p=q / 100)
    low, high = result.confidence_interval(confidence_level=confidence)
    low = None if math.isnan(low) else low
    return low, None if math.isnan(high) else high
