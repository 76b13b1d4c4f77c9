# Fails: test_widened
def widened(requests, start, end):
    requests.sort()
    changed = True
    while changed:
        changed = False
        for a, b in requests:
            if a < start < b:
                start, changed = a, True
            if a < end < b:
                end, changed = b, True
    return start, end
