# Fails: all
def wasted_s(requests, starts):
    return sum(starts) - sum(first_come(requests))
