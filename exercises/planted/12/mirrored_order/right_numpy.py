import numpy as np


def mirrored_order(conditions, pairs, seed):
    source = np.random.default_rng(seed)
    rounds = [source.permutation(len(conditions)) for _ in range(pairs)]
    places = [np.concatenate([each, each[::-1]]) for each in rounds]
    return np.array(conditions)[np.concatenate(places)]
