# Fails: all
def fewest(q, confidence):
    p = max(q, 100 - q) / 100
    n = 1
    while p**n + (1 - p) ** n > 1 - confidence:
        n += 1
    return n
