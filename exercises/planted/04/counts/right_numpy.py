import numpy as np

passes = np.arange(500, 600)
entered = np.r_[500, np.ones(99, dtype=int)].sum()
counts = {
    "positions_without": passes.sum(),
    "positions_with": entered,
    "looks_with": np.arange(1, entered + 1).sum(),
    "kept_bytes": np.zeros((2, 30, 3, 599, 64), np.float32).nbytes,
}
