# Fails: test_wasted_once
def wasted_s(requests, starts):
    wasted, free = 0, float("-inf")
    pairs = zip(starts, requests, strict=True)
    by_start = sorted(pairs, key=lambda taken: taken[0])
    for start, request in by_start:
        first = request[1]
        wasted += max(0, start - max(free, first))
        free = start + request[2]
    return wasted
