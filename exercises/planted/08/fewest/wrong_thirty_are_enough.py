# Fails: all
def fewest(q, confidence):
    return 30
