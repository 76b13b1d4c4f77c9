# Fails: all
def widened(requests, start, end):
    while cut := [b for a, b in requests if a < start < b]:
        start = max(cut)
    while cut := [a for a, b in requests if a < end < b]:
        end = min(cut)
    return start, end
