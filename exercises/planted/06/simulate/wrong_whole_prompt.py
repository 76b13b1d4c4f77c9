# Fails: all
def simulate(turns, window, target):
    counts, kept = [], []
    for turn in turns:
        kept.append(turn)
        if sum(kept) > window:
            while sum(kept) > target and len(kept) > 1:
                del kept[0]
        counts.append(sum(kept))
    return counts
