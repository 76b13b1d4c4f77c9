# Fails: test_wasted_some, test_wasted_once
def wasted_s(requests, starts):
    def last_end(moments):
        ends = [s + r[2] for s, r in zip(moments, requests, strict=True)]
        return max(ends, default=0)

    return last_end(starts) - last_end(first_come(requests))
