# Fails: test_order_counts, test_order_mirrored, test_order_cancels
import random


def mirrored_order(conditions, pairs, seed):
    shuffler = random.Random(seed)
    order, turn = [], list(conditions)
    for number in range(pairs):
        if number % 2 == 0:
            shuffler.shuffle(turn)
        order += turn if number % 2 == 0 else turn[::-1]
    return order
