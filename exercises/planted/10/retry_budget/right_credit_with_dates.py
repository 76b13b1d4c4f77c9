import heapq


class RetryBudget:
    """A balance; what was paid in or out is undone when it is too old."""

    def __init__(self, share, floor, window_ms):
        self.share, self.balance, self.window_ms = share, floor, window_ms
        self.undo = []

    def book(self, now_ms, amount):
        self.balance += amount
        heapq.heappush(self.undo, (now_ms + self.window_ms, -amount))

    def first(self, now_ms):
        self.settle(now_ms)
        self.book(now_ms, self.share)

    def settle(self, now_ms):
        while self.undo and self.undo[0][0] <= now_ms:
            self.balance += heapq.heappop(self.undo)[1]

    def may_retry(self, now_ms):
        self.settle(now_ms)
        if self.balance < 1:
            return False
        self.book(now_ms, -1)
        return True
