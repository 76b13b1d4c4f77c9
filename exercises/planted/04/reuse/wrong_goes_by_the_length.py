# Fails: test_reuse_start, test_reuse_after_difference
def reuse(held_ids, prompt_ids):
    keep = min(len(held_ids), len(prompt_ids) - 1)
    return keep, prompt_ids[keep:]
