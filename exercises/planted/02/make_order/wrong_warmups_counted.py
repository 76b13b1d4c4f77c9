# Fails: test_order_counts, test_order_warmups, test_order_mixed
import random


def make_order(conditions, repeats, warmups, seed):
    runs = [(c, True) for c in conditions] * (warmups + repeats)
    random.Random(seed).shuffle(runs)
    return runs
