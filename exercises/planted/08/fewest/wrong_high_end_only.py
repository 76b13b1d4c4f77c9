# Fails: all
def fewest(q, confidence):
    p = q / 100
    n = 1
    while p**n > (1 - confidence) / 2:
        n += 1
    return n
