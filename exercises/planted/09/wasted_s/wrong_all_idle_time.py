# Fails: all
def wasted_s(requests, starts):
    wasted, free = 0, float("-inf")
    pairs = zip(starts, requests, strict=True)
    by_start = sorted(pairs, key=lambda taken: taken[0])
    for place, (start, request) in enumerate(by_start):
        wasted += start - free if place else start
        free = start + request[2]
    return wasted
