# Fails: all
def widened(requests, start, end):
    changed = True
    while changed:
        changed = False
        for a, b in requests:
            if b > start and a < end and (a < start or b > end):
                start, end, changed = min(a, start), max(b, end), True
        for a, b in requests:
            if b == start and a < start:
                start, changed = a, True
    return start, end
