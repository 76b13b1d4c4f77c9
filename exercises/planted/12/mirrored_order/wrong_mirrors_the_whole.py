# Fails: test_order_mirrored
import random


def mirrored_order(conditions, pairs, seed):
    shuffler = random.Random(seed)
    half = []
    for _ in range(pairs):
        turn = list(conditions)
        shuffler.shuffle(turn)
        half += turn
    return half + half[::-1]
