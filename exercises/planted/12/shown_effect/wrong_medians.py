# Fails: test_effect_mixed
def shown_effect(order, times, drift, a, b):
    """Mean seconds of a over mean seconds of b, as the table has them."""
    from statistics import median

    seconds = {a: [], b: []}
    for place, condition in enumerate(order):
        if condition in seconds:
            taken = times[condition] * (1 + drift * place)
            seconds[condition].append(taken)
    means = {name: median(s) for name, s in seconds.items()}
    return means[a] / means[b]
