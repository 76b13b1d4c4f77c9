# Fails: test_other_edges
class Histogram:
    def __init__(self, edges, counts=None):
        self.edges = list(edges)
        if counts is None:
            counts = [0] * (len(self.edges) + 1)
        self.counts = list(counts)

    def add(self, ms):
        if not ms >= 0:
            raise ValueError("no time")
        bucket = 0
        while bucket < len(self.edges) and ms > self.edges[bucket]:
            bucket += 1
        self.counts[bucket] += 1

    def merged(self, other):
        sums = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Histogram(self.edges, sums)

    def bucket_at(self, place):
        bucket, passed = 0, self.counts[0]
        while passed <= place:
            bucket += 1
            passed += self.counts[bucket]
        return bucket

    def bounds(self, q):
        n = sum(self.counts)
        if n == 0:
            return None
        place = (n - 1) * q / 100
        i = int(place)
        f = place - i
        a = self.bucket_at(i)
        b = self.bucket_at(i + 1) if f > 0 else a
        lower, upper = [0, *self.edges], [*self.edges, None]
        low = (1 - f) * lower[a] + f * lower[b]
        if upper[b] is None:
            return low, None
        return low, (1 - f) * upper[a] + f * upper[b]
