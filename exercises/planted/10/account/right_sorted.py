from itertools import groupby


def name(attempt):
    return str(attempt[0])


def account(log, objective_ms):
    answered = good = 0
    groups = [list(g) for _, g in groupby(sorted(log, key=name), key=name)]
    for attempts in groups:
        answers = [ms for _, _, ms in attempts if ms is not None]
        if answers:
            answered += 1
            begin = min(sent for _, sent, _ in attempts)
            good += min(answers) <= begin + objective_ms
    n = len(groups)
    return {
        "requests": n,
        "attempts": len(log),
        "answered": answered,
        "good": good,
        "in_vain": len(log) - answered,
        "share": good / n if n else None,
        "amplification": len(log) / n if n else None,
    }
