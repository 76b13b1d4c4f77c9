# Fails: all
def percentile_interval(values, q, confidence):
    ordered = sorted(values)
    place = int((len(ordered) - 1) * q / 100)
    low = ordered[place - 1] if place > 0 else None
    high = ordered[place + 1] if place + 1 < len(ordered) else None
    return low, high
