# Fails: test_fit_least_squares
import numpy as np


def fit(lengths, seconds):
    n, s = np.array(lengths, float), np.array(seconds, float)
    if len(set(lengths)) < 2:
        a, b = float(np.mean(s)) if len(s) else 0.0, 0.0
    else:
        b, a = np.polyfit(n, s, 1)
    return {"fixed_s": a, "per_token_s": b, "residuals_s": s - (a + b * n)}
