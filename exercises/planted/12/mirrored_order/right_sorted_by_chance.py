import random


def mirrored_order(conditions, pairs, seed):
    random.seed(seed)
    order = []
    for _ in range(pairs):
        turn = sorted(conditions, key=lambda _: random.random())
        order.extend(turn)
        order.extend(turn[::-1])
    return order
