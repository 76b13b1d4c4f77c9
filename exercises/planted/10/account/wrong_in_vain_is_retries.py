# Fails: test_account_counts
def account(log, objective_ms):
    attempts = {}
    for name, sent_ms, answered_ms in log:
        attempts.setdefault(name, []).append((sent_ms, answered_ms))
    answered, good = 0, 0
    for tries in attempts.values():
        begin = min(sent for sent, _ in tries)
        answers = [ms for _, ms in tries if ms is not None]
        if answers:
            answered += 1
            good += min(answers) - begin <= objective_ms
    n = len(attempts)
    return {
        "requests": n,
        "attempts": len(log),
        "amplification": len(log) / n if n else None,
        "answered": answered,
        "good": good,
        "share": good / n if n else None,
        "in_vain": len(log) - n,
    }
