# Fails: test_order_mirrored, test_order_cancels
import random


def mirrored_order(conditions, pairs, seed):
    order = list(conditions) * (2 * pairs)
    random.Random(seed).shuffle(order)
    return order
