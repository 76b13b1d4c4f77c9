from collections import deque


class WindowCache:
    def __init__(self, window):
        self.keys, self.values = deque(maxlen=window), deque(maxlen=window)
        self.position = self.held = 0

    def append(self, key, value):
        self.keys.append(key)
        self.values.append(value)
        self.position += 1
        self.held = len(self.keys)
        return tuple(self.keys), tuple(self.values)
