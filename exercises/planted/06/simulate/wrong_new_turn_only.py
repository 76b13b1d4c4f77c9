# Fails: test_simulate_lesson, test_simulate_target, test_simulate_unequal
def simulate(turns, window, target):
    counts, kept = [], []
    for turn in turns:
        kept.append(turn)
        if sum(kept) > window:
            while sum(kept) > target and len(kept) > 1:
                del kept[0]
        counts.append(turn)
    return counts
