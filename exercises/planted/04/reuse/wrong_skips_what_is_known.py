# Fails: test_reuse_start, test_reuse_leaves_one, test_reuse_after_difference
def reuse(held_ids, prompt_ids):
    known = set(held_ids)
    rest = [i for i in prompt_ids if i not in known]
    return len(prompt_ids) - len(rest), rest
