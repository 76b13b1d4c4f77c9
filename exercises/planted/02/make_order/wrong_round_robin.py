# Fails: test_order_seed, test_order_mixed
def make_order(conditions, repeats, warmups, seed):
    warm = [(c, False) for c in conditions] * warmups
    return warm + [(c, True) for c in conditions] * repeats
