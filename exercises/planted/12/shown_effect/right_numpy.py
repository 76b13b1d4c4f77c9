import numpy as np


def shown_effect(order, times, drift, a, b):
    names = np.array(order)
    true = np.array([times[name] for name in order])
    seconds = true * (1 + drift * np.arange(len(order)))
    return seconds[names == a].mean() / seconds[names == b].mean()
