# Fails: test_order_counts
import random


def make_order(conditions, repeats, warmups, seed):
    draw = random.Random(seed)
    warm = [(c, False) for c in conditions] * warmups
    runs = len(conditions) * repeats
    return warm + [(draw.choice(conditions), True) for _ in range(runs)]
