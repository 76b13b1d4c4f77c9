import numpy as np
from scipy import stats


def percentile_interval(values, q, confidence):
    ordered = np.sort(np.asarray(values, dtype=float))
    count = stats.binom(len(ordered), q / 100)
    miss = (1 - confidence) / 2
    if not len(ordered):
        return (None, None)
    first, last = int(count.ppf(miss)), int(count.isf(miss))
    return (
        ordered[first - 1] if first >= 1 else None,
        ordered[last] if last < len(ordered) else None,
    )
