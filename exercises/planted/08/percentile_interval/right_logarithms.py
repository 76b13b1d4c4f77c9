from bisect import bisect_right
from itertools import accumulate
from math import exp, lgamma, log


def percentile_interval(values, q, confidence):
    x, n, p = sorted(values), len(values), q / 100

    def chance(k):
        ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
        return exp(ways + k * log(p) + (n - k) * log(1 - p))

    def ranks(chances):
        """How many ranks from one side are good enough."""
        return bisect_right(list(accumulate(chances)), (1 - confidence) / 2)

    below = min(n, ranks(chance(k) for k in range(n + 1)))
    above = min(n, ranks(chance(n - k) for k in range(n + 1)))
    low = x[below - 1] if below else None
    return [low, x[n - above] if above else None]
