# Fails: test_order_warmups
import random


def make_order(conditions, repeats, warmups, seed):
    runs = [(c, True) for c in conditions] * repeats
    runs += [(c, False) for c in conditions] * warmups
    random.Random(seed).shuffle(runs)
    return runs
