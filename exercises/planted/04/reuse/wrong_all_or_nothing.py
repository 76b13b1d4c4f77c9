# Fails: test_reuse_start, test_reuse_leaves_one, test_reuse_after_difference
def reuse(held_ids, prompt_ids):
    count = len(held_ids)
    if count < len(prompt_ids) and prompt_ids[:count] == held_ids:
        return count, prompt_ids[count:]
    return 0, prompt_ids
