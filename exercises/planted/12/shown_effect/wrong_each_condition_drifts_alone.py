# Fails: test_effect_blocked, test_effect_mixed, test_effect_matrix
def shown_effect(order, times, drift, a, b):
    """Mean seconds of a over mean seconds of b, as the table has them."""
    seconds = {a: [], b: []}
    for condition in order:
        if condition in seconds:
            place = len(seconds[condition])
            taken = times[condition] * (1 + drift * place)
            seconds[condition].append(taken)
    means = {name: sum(s) / len(s) for name, s in seconds.items()}
    return means[a] / means[b]
