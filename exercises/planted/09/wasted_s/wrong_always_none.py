# Fails: test_wasted_some, test_wasted_once
def wasted_s(requests, starts):
    return 0
