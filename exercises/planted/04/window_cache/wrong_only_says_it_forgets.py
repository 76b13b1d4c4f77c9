# Fails: test_window_held
class WindowCache:
    def __init__(self, window):
        self.window = window
        self.keys, self.values = [], []

    @property
    def held(self):
        return min(len(self.keys), self.window)

    @property
    def position(self):
        return len(self.keys)

    def append(self, key, value):
        self.keys.append(key)
        self.values.append(value)
        return self.keys[-self.window :], self.values[-self.window :]
