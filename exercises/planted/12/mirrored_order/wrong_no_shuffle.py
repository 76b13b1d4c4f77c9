# Fails: test_order_seed, test_order_shuffled
def mirrored_order(conditions, pairs, seed):
    """Pairs of rounds: one shuffled, then the same backwards."""
    order = []
    for _ in range(pairs):
        turn = list(conditions)
        order += [*turn, *reversed(turn)]
    return order
