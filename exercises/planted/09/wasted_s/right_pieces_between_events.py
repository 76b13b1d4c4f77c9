from itertools import pairwise


def wasted_s(requests, starts):
    served = [(s, s + r[2]) for s, r in zip(starts, requests, strict=True)]
    waited = [(r[1], s) for s, r in zip(starts, requests, strict=True)]
    cuts = sorted({t for pair in served + waited for t in pair})

    def during(spans, a, b):
        return any(first <= a and b <= last for first, last in spans)

    return sum(
        b - a
        for a, b in pairwise(cuts)
        if during(waited, a, b) and not during(served, a, b)
    )
