# Fails: test_cache_truncate
class Cache:
    def __init__(self, capacity):
        self.capacity, self.length = capacity, 0
        self.keys = [None] * capacity
        self.values = [None] * capacity

    def append(self, keys, values):
        start, end = self.length, self.length + len(keys)
        if end > self.capacity:
            raise ValueError(f"{end} entries in {self.capacity} places")
        self.keys[start:end] = keys
        self.values[start:end] = values
        self.length = end
        return self.keys[:end], self.values[:end]

    def truncate(self, length):
        self.length = length

    def reset(self):
        self.truncate(0)
