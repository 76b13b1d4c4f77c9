# Fails: all
def wasted_s(requests, starts):
    return sum(start - r[1] for start, r in zip(starts, requests, strict=True))
