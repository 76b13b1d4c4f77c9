# Fails: test_order_mixed
import random


def make_order(conditions, repeats, warmups, seed):
    turn = list(conditions)
    random.Random(seed).shuffle(turn)
    warm = [(c, False) for c in turn] * warmups
    return warm + [(c, True) for c in turn] * repeats
