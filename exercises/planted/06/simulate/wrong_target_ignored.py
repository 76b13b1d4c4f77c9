# Fails: test_simulate_target, test_simulate_unequal
def simulate(turns, window, target):
    counts, kept = [], []
    for turn in turns:
        kept.append(turn)
        before = len(kept)
        if sum(kept) > window:
            while sum(kept) > window and len(kept) > 1:
                del kept[0]
        counts.append(sum(kept) if len(kept) < before else turn)
    return counts
