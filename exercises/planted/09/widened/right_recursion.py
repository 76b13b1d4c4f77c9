def widened(requests, start, end):
    new_start = min([a for a, b in requests if a < start < b] + [start])
    new_end = max([end] + [b for a, b in requests if a < end and b > end])
    if (new_start, new_end) == (start, end):
        return [start, end]
    return widened(requests, new_start, new_end)
