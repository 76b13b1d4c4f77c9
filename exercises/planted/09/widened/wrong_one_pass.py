# Fails: test_widened_far
def widened(requests, start, end):
    for a, b in sorted(requests):
        if a < start < b:
            start = a
        if a < end < b:
            end = b
    return start, end
