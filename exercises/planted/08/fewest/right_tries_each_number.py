def fewest(q, confidence):
    below = above = 1.0
    count = 0
    while max(below, above) > (1 - confidence) / 2:
        below *= q / 100
        above *= 1 - q / 100
        count += 1
    return float(count)
