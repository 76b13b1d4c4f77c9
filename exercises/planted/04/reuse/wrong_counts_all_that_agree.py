# Fails: test_reuse_start, test_reuse_after_difference
def reuse(held_ids, prompt_ids):
    pairs = zip(held_ids, prompt_ids[:-1], strict=False)
    keep = sum(held == wanted for held, wanted in pairs)
    return keep, prompt_ids[keep:]
