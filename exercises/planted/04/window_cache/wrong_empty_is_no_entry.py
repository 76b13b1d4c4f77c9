# Fails: test_window_itself
class WindowCache:
    def __init__(self, window):
        self.keys, self.values = [""] * window, [""] * window
        self.position = 0

    @property
    def held(self):
        return min(self.position, len(self.keys))

    def append(self, key, value):
        self.keys = [*self.keys[1:], key]
        self.values = [*self.values[1:], value]
        self.position += 1
        return [k for k in self.keys if k], [v for v in self.values if v]
