class Cache:
    def __init__(self, capacity):
        self.capacity, self.entries = capacity, []

    @property
    def length(self):
        return len(self.entries)

    def append(self, keys, values):
        longer = [*self.entries, *zip(keys, values, strict=True)]
        if len(longer) > self.capacity:
            raise ValueError("full")
        self.entries = longer
        return tuple(k for k, _ in longer), tuple(v for _, v in longer)

    def truncate(self, length):
        if length < 0 or length > len(self.entries):
            raise ValueError(length)
        self.entries = self.entries[:length]

    def reset(self):
        self.entries = []
