# Fails: test_window_held
class WindowCache:
    def __init__(self, window):
        self.window, self.position = window, 0
        self.keys, self.values = [], []

    @property
    def held(self):
        return len(self.keys)

    def append(self, key, value):
        self.keys = [*self.keys, key]
        self.values = [*self.values, value]
        self.position += 1
        return self.keys[-self.window :], self.values[-self.window :]
