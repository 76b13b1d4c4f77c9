# Fails: test_wasted_none, test_wasted_once
def wasted_s(requests, starts):
    wasted, free = 0, float("-inf")
    pairs = zip(starts, requests, strict=True)
    by_start = list(pairs)
    for place, (start, request) in enumerate(by_start):
        first = min(later[1][1] for later in by_start[place:])
        wasted += max(0, start - max(free, first))
        free = start + request[2]
    return wasted
