# Fails: test_order_mirrored, test_order_cancels
import random


def mirrored_order(conditions, pairs, seed):
    turn = list(conditions)
    random.Random(seed).shuffle(turn)
    return [name for name in turn for _ in range(2 * pairs)]
