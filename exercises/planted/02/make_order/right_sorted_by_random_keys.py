import random


def make_order(conditions, repeats, warmups, seed):
    random.seed(seed)
    cold = [(c, False) for _ in range(warmups) for c in conditions]
    runs = [(c, True) for c in conditions for _ in range(repeats)]
    return cold + sorted(runs, key=lambda _: random.random())
