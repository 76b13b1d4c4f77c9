# Fails: test_order_seed
def mirrored_order(conditions, pairs, seed):
    """Pairs of rounds: one shuffled, then the same backwards."""
    import random

    shuffler = random.Random(seed)
    order = []
    for _ in range(pairs):
        turn = conditions
        shuffler.shuffle(turn)
        order += [*turn, *reversed(turn)]
    return order
