# Fails: test_account_good
def account(log, objective_ms):
    attempts = {}
    for name, sent_ms, answered_ms in log:
        attempts.setdefault(name, []).append((sent_ms, answered_ms))
    answered, good = 0, 0
    for tries in attempts.values():
        answers = [ms for _, ms in tries if ms is not None]
        if answers:
            answered += 1
            waits = [ms - sent for sent, ms in tries if ms is not None]
            good += min(waits) <= objective_ms
    n = len(attempts)
    return {
        "requests": n,
        "attempts": len(log),
        "amplification": len(log) / n if n else None,
        "answered": answered,
        "good": good,
        "share": good / n if n else None,
        "in_vain": len(log) - answered,
    }
