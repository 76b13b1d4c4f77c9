# Fails: test_carried, test_repaired, test_any_order
def readings(requests, start, end):
    length = end - start
    spent = carried_in = carried_out = 0
    times = []
    for arrived, left in requests:
        inside = max(0, min(left, end) - max(arrived, start))
        spent += inside
        if arrived < start:
            carried_in += left - arrived if inside else 0
        elif arrived < end:
            times.append(left - arrived)
            carried_out += max(0, left - end)
    return {
        "in_flight": spent / length,
        "rate_per_s": len(times) / length,
        "mean_time_s": sum(times) / len(times) if times else None,
        "carried_in_s": carried_in,
        "carried_out_s": carried_out,
    }
