def wasted_s(requests, starts):
    """The number waiting and whether the slot is busy, event by event."""
    events = []
    for (_, arrival, service), start in zip(requests, starts, strict=True):
        events += [(arrival, 1, 0), (start, -1, 1), (start + service, 0, -1)]
    total, waiting, busy, before = 0.0, 0, 0, 0.0
    for moment, more_waiting, more_busy in sorted(events):
        if waiting and not busy:
            total += moment - before
        waiting, busy = waiting + more_waiting, busy + more_busy
        before = moment
    return total
