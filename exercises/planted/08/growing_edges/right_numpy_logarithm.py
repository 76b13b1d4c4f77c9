import numpy as np


def growing_edges(smallest, largest, factor):
    steps = np.ceil(np.log(largest / smallest) / np.log(factor))
    return smallest * float(factor) ** np.arange(steps + 1)
