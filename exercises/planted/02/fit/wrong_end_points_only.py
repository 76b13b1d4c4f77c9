# Fails: test_fit_least_squares, test_fit_residuals
import numpy as np


def fit(lengths, seconds):
    if len(set(lengths)) < 2:
        return None
    n, s = np.array(lengths, float), np.array(seconds, float)
    b = (s[-1] - s[0]) / (n[-1] - n[0]) if n[-1] != n[0] else 0.0
    a = s[0] - b * n[0]
    return {"fixed_s": a, "per_token_s": b, "residuals_s": s - (a + b * n)}
