# Fails: test_wasted_once
def wasted_s(requests, starts):
    wasted, free = 0, float("-inf")
    pairs = zip(starts, requests, strict=True)
    by_start = sorted(pairs, key=lambda taken: taken[0])
    for place, (start, request) in enumerate(by_start):
        for _, later in by_start[place:]:
            wasted += max(0, start - max(free, later[1]))
        free = start + request[2]
    return wasted
