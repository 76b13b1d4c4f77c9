# Fails: test_reuse_after_difference
def reuse(held_ids, prompt_ids):
    keep = 0
    while held_ids and len(prompt_ids) > 1 and held_ids[0] == prompt_ids[0]:
        held_ids.pop(0)
        prompt_ids.pop(0)
        keep += 1
    return keep, prompt_ids
