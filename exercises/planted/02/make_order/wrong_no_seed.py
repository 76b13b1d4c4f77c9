# Fails: test_order_seed
import random


def make_order(conditions, repeats, warmups, seed):
    runs = [(c, True) for c in conditions] * repeats
    random.shuffle(runs)
    return [(c, False) for c in conditions] * warmups + runs
