# Fails: test_refused, test_window, test_storm
class RetryBudget:
    """A bucket: each request pays in, each retry takes one out."""

    def __init__(self, share, floor, window_ms):
        self.share, self.tokens = share, floor

    def first(self, now_ms):
        self.tokens += self.share

    def may_retry(self, now_ms):
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True
