# Fails: test_reuse_leaves_one
def reuse(held_ids, prompt_ids):
    keep = 0
    for held, wanted in zip(held_ids, prompt_ids, strict=False):
        if held != wanted:
            break
        keep += 1
    return keep, prompt_ids[keep:]
