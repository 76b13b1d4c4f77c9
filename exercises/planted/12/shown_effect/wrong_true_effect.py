# Fails: test_effect_blocked, test_effect_mixed, test_effect_matrix
def shown_effect(order, times, drift, a, b):
    return times[a] / times[b]
