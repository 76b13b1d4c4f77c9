# Fails: test_at_once, test_numbers, test_cut_off, test_broken
def items(pieces):
    return items_at_the_end(pieces)
