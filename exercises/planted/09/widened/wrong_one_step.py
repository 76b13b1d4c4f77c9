# Fails: all
def widened(requests, start, end):
    first = min([a for a, b in requests if a < start < b], default=start)
    last = max([b for a, b in requests if a < end < b], default=end)
    return first, last
