# Fails: test_fit_residuals
import numpy as np


def fit(lengths, seconds):
    if len(set(lengths)) < 2:
        return None
    n, s = np.array(lengths, float), np.array(seconds, float)
    b, a = np.polyfit(n, s, 1)
    return {
        "fixed_s": a,
        "per_token_s": b,
        "residuals_s": np.sort(s - (a + b * n)),
    }
