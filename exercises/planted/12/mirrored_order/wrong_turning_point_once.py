# Fails: test_order_counts, test_order_mirrored, test_order_cancels
import random


def mirrored_order(conditions, pairs, seed):
    shuffler = random.Random(seed)
    order = []
    for _ in range(pairs):
        turn = list(conditions)
        shuffler.shuffle(turn)
        order += turn + turn[-2::-1]
    return order
