import numpy as np


class Histogram:
    def __init__(self, edges, counts=None):
        self.edges = np.array(edges, dtype=float)
        self.counts = np.zeros(len(edges) + 1, dtype=np.int64)
        if counts is not None:
            self.counts += np.asarray(counts)

    def add(self, ms):
        if np.isnan(ms) or ms < 0:
            raise ValueError(ms)
        self.counts[np.searchsorted(self.edges, ms)] += 1

    def merged(self, other):
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("edges")
        return Histogram(self.edges, self.counts + other.counts)

    def bounds(self, q):
        total = self.counts.cumsum()
        if total[-1] == 0:
            return None
        place = (total[-1] - 1) * q / 100
        places = [np.floor(place), np.ceil(place)]
        buckets = np.searchsorted(total, places, side="right")
        edges = np.concatenate([[0], self.edges, [np.inf]])
        share = place % 1
        low = np.interp(share, [0, 1], edges[buckets])
        high = edges[buckets + 1]
        if np.isinf(high[1]):
            return low, None
        return low, np.interp(share, [0, 1], high)
