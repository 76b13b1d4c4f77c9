# Fails: all
from math import ceil, log


def growing_edges(smallest, largest, factor):
    steps = max(1, ceil(log(largest / smallest) / log(factor)))
    step = (largest / smallest) ** (1 / steps)
    return [smallest * step**k for k in range(steps + 1)]
