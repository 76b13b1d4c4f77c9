from math import ceil, log


def fewest(q, confidence):
    further = max(q / 100, 1 - q / 100)
    return ceil(log((1 - confidence) / 2) / log(further))
