import numpy as np


def readings(requests, start, end):
    a, b = np.array(requests, dtype=float).reshape(-1, 2).T
    inside = np.clip(b, start, end) - np.clip(a, start, end)
    new = (a >= start) & (a < end)
    return {
        "in_flight": inside.sum() / (end - start),
        "rate_per_s": np.count_nonzero(new) / (end - start),
        "mean_time_s": (b - a)[new].mean() if new.any() else None,
        "carried_in_s": inside[a < start].sum(),
        "carried_out_s": np.maximum(b - end, 0)[new].sum(),
    }
