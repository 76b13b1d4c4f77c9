# Fails: test_order_shuffled
def mirrored_order(conditions, pairs, seed):
    """Pairs of rounds: one shuffled, then the same backwards."""
    import random

    order = []
    for _ in range(pairs):
        turn = list(conditions)
        random.Random(seed).shuffle(turn)
        order += [*turn, *reversed(turn)]
    return order
