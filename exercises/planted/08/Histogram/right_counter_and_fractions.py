from bisect import bisect_left
from collections import Counter
from fractions import Fraction
from math import isnan


class Histogram:
    """Counts in a Counter; percentiles from the buckets written out."""

    def __init__(self, edges, counts=None):
        self._edges = tuple(edges)
        self._held = Counter(dict(enumerate(counts or ())))

    @property
    def counts(self):
        return [self._held[b] for b in range(len(self._edges) + 1)]

    def add(self, ms):
        if isnan(ms) or ms < 0:
            raise ValueError(f"cannot count {ms}")
        self._held[bisect_left(self._edges, ms)] += 1

    def merged(self, other):
        if self._edges != other._edges:
            raise ValueError("not the same edges")
        new = Histogram(self._edges)
        new._held = self._held + other._held
        return new

    def bounds(self, q):
        buckets = sorted(self._held.elements())
        if not buckets:
            return None
        place = Fraction(len(buckets) - 1) * Fraction(str(q)) / 100
        first = buckets[int(place)]
        second = buckets[-(-place.numerator // place.denominator)]
        part = float(place % 1)
        below = (0, *self._edges)
        low = below[first] + part * (below[second] - below[first])
        if second == len(self._edges):
            return low, None
        first, second = self._edges[first], self._edges[second]
        return low, first + part * (second - first)
