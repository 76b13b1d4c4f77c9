# Fails: all
def widened(requests, start, end):
    first = min([a for a, _ in requests], default=start)
    last = max([end, *(b for _, b in requests)])
    return min(first, start), max(last, end)
