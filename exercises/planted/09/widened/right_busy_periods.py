def widened(requests, start, end):
    """Requests joined to periods, of which the two ends may cut one."""
    periods = []
    for a, b in sorted(requests):
        if a == b:
            continue
        if periods and a < periods[-1][1]:
            periods[-1][1] = max(periods[-1][1], b)
        else:
            periods.append([a, b])
    first, last = start, end
    for a, b in periods:
        if a < start < b:
            first = a
        if a < end < b:
            last = b
    return first, last
