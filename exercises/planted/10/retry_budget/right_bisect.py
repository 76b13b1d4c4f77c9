from bisect import bisect_right


class RetryBudget:
    def __init__(self, share, floor, window_ms):
        self.share, self.floor, self.window_ms = share, floor, window_ms
        self.sent = {"first": [], "retry": []}

    def within(self, now_ms, kind):
        times = self.sent[kind]
        return len(times) - bisect_right(times, now_ms - self.window_ms)

    def first(self, now_ms):
        self.sent["first"].append(now_ms)

    def may_retry(self, now_ms):
        with_it = self.within(now_ms, "retry") + 1
        if with_it - self.floor > self.share * self.within(now_ms, "first"):
            return 0
        self.sent["retry"].append(now_ms)
        return 1
