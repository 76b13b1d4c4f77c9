import numpy as np


def make_order(cases, n, warm, seed):
    places = np.repeat(np.arange(len(cases)), n)
    np.random.default_rng(seed).shuffle(places)
    order = [[np.array(c), np.False_] for c in cases for _ in range(warm)]
    return order + [[np.array(cases[i]), np.True_] for i in places]
