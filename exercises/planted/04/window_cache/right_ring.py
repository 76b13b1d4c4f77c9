class WindowCache:
    def __init__(self, window):
        self.places, self.position = [None] * window, 0

    @property
    def held(self):
        return min(self.position, len(self.places))

    def append(self, key, value):
        window = len(self.places)
        self.places[self.position % window] = (key, value)
        self.position += 1
        first = self.position - self.held
        seen = [self.places[n % window] for n in range(first, self.position)]
        return [list(part) for part in zip(*seen, strict=True)]
