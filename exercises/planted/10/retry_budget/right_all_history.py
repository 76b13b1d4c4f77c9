class RetryBudget:
    def __init__(self, share, floor, window_ms):
        self.allowed = lambda firsts: floor + share * firsts
        self.window_ms = window_ms
        self.history = []

    def first(self, now_ms):
        self.history.append((now_ms, "first"))

    def recent(self, now_ms, wanted):
        return sum(
            kind == wanted and now_ms - ms < self.window_ms
            for ms, kind in self.history
        )

    def may_retry(self, now_ms):
        firsts = self.recent(now_ms, "first")
        yes = self.recent(now_ms, "retry") < int(self.allowed(firsts))
        if yes:
            self.history.append((now_ms, "retry"))
        return yes
