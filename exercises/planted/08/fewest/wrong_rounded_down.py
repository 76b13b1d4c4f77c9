# Fails: all
from math import log


def fewest(q, confidence):
    p = max(q, 100 - q) / 100
    return int(log((1 - confidence) / 2) / log(p))
