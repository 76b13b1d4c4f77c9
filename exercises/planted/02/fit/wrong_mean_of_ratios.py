# Fails: test_fit_line, test_fit_least_squares, test_fit_residuals
import numpy as np


def fit(lengths, seconds):
    if len(set(lengths)) < 2:
        return None
    n, s = np.array(lengths, float), np.array(seconds, float)
    b = np.mean(s / np.maximum(n, 1))
    a = np.min(s - b * n)
    return {"fixed_s": a, "per_token_s": b, "residuals_s": s - (a + b * n)}
