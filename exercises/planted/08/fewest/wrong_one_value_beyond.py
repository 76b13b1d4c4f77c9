# Fails: all
from math import ceil


def fewest(q, confidence):
    return ceil(100 / (100 - q))
