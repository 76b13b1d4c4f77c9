from functools import reduce
from operator import mul


def weight_bytes(listing):
    first = {t[3]: t for t in reversed(listing)}.values()
    return float(sum(reduce(mul, t[1], 1) * BYTES[t[2]] for t in first))
