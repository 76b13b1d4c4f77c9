# Fails: test_allowed, test_refused, test_window, test_storm
class RetryBudget:
    def __init__(self, share, floor, window_ms):
        self.share, self.floor, self.window_ms = share, floor, window_ms
        self.firsts, self.retries = [], []

    def first(self, now_ms):
        self.firsts.append(now_ms)

    def may_retry(self, now_ms):
        start = now_ms - self.window_ms
        self.firsts = [t for t in self.firsts if t > start]
        self.retries = [t for t in self.retries if t > start]
        allowed = self.floor + self.share * len(self.firsts + self.retries)
        if len(self.retries) + 1 > allowed:
            return False
        self.retries.append(now_ms)
        return True
