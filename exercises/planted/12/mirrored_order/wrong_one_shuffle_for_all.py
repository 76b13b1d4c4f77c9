# Fails: test_order_shuffled
def mirrored_order(conditions, pairs, seed):
    """Pairs of rounds: one shuffled, then the same backwards."""
    import random

    shuffler = random.Random(seed)
    order = []
    turn = list(conditions)
    shuffler.shuffle(turn)
    for _ in range(pairs):
        order += [*turn, *reversed(turn)]
    return order
