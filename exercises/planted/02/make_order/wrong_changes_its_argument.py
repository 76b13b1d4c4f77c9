# Fails: test_order_seed
import random


def make_order(conditions, repeats, warmups, seed):
    draw = random.Random(seed)
    order = [(c, False) for c in conditions] * warmups
    for _ in range(repeats):
        draw.shuffle(conditions)
        order += [(c, True) for c in conditions]
    return order
