# Fails: test_reuse_start, test_reuse_leaves_one, test_reuse_after_difference
def reuse(held_ids, prompt_ids):
    return 0, prompt_ids
