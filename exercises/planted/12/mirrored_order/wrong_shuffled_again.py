# Fails: test_order_mirrored, test_order_cancels
def mirrored_order(conditions, pairs, seed):
    """Pairs of rounds: one shuffled, then the same backwards."""
    import random

    shuffler = random.Random(seed)
    order = []
    for _ in range(pairs):
        turn = list(conditions)
        shuffler.shuffle(turn)
        order += turn
        shuffler.shuffle(turn)
        order += turn
    return order
