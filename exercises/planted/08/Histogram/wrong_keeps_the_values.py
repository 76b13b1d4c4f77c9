# Fails: test_bounds, test_bounds_between, test_open, test_workers
class Histogram:
    def __init__(self, edges, counts=None):
        self.edges = list(edges)
        self.values = []
        self.given = list(counts or [0] * (len(self.edges) + 1))

    @property
    def counts(self):
        found = list(self.given)
        for ms in self.values:
            found[sum(edge < ms for edge in self.edges)] += 1
        return found

    def add(self, ms):
        if not ms >= 0:
            raise ValueError("no time")
        self.values.append(ms)

    def merged(self, other):
        if self.edges != other.edges:
            raise ValueError("other edges")
        sums = [a + b for a, b in zip(self.given, other.given, strict=True)]
        new = Histogram(self.edges, sums)
        new.values = self.values + other.values
        return new

    def bounds(self, q):
        if not self.values:
            return None
        x = sorted(self.values)
        i = int((len(x) - 1) * q / 100)
        return x[i], x[min(i + 1, len(x) - 1)]
