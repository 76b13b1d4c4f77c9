# Fails: all
def widened(requests, start, end):
    changed = True
    while changed:
        changed = False
        for a, b in requests:
            if a < start <= b:
                start, changed = a, True
            if a <= end < b:
                end, changed = b, True
    return start, end
