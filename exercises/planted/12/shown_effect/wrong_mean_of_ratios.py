# Fails: test_effect_blocked, test_effect_mixed, test_effect_matrix
def shown_effect(order, times, drift, a, b):
    seconds = {a: [], b: []}
    for place, condition in enumerate(order):
        if condition in seconds:
            taken = times[condition] * (1 + drift * place)
            seconds[condition].append(taken)
    ratios = [x / y for x, y in zip(seconds[a], seconds[b], strict=False)]
    return sum(ratios) / len(ratios)
