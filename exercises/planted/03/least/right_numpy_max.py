import numpy as np


def least(weights, size, positions, flop_per_s, bytes_per_s):
    words = np.array(["arithmetic", "reading"])
    work = np.array([2.0 * positions, size]) * weights
    seconds = work / np.array([flop_per_s, bytes_per_s])
    return seconds.max(), words[seconds.argmax()]
