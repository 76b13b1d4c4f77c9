def readings(requests, start, end):
    """The number in flight as a staircase, integrated step by step."""
    steps = [(a, 1) for a, _ in requests]
    steps = sorted(steps + [(b, -1) for _, b in requests])
    area, count, before = 0.0, 0, start
    for change, step in steps:
        moment = min(max(change, start), end)
        area += count * (moment - before)
        before, count = moment, count + step
    came = [r for r in requests if r[0] >= start and r[0] < end]
    total = sum(b for _, b in came) - sum(a for a, _ in came)
    out = sum(b - end for _, b in came if b > end)
    return {
        "in_flight": area / (end - start),
        "rate_per_s": len(came) / (end - start),
        "mean_time_s": None if not came else total / len(came),
        # What the law leaves over.
        "carried_in_s": area - total + out,
        "carried_out_s": out,
    }
