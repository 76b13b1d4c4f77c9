from collections import defaultdict
from math import inf


def account(log, objective_ms):
    begin, answer = defaultdict(lambda: inf), defaultdict(lambda: inf)
    for name, sent, ms in log:
        begin[name] = min(begin[name], sent)
        answer[name] = min(answer[name], inf if ms is None else ms)
    waits = [answer[name] - begin[name] for name in begin]
    n, answered = len(waits), sum(wait < inf for wait in waits)
    good = sum(wait <= objective_ms for wait in waits)
    return {
        "requests": n,
        "attempts": len(log),
        "amplification": len(log) / n if n else None,
        "answered": answered,
        "good": good,
        "share": good / n if n else None,
        "in_vain": len(log) - answered,
    }
