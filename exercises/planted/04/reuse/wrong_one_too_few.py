# Fails: all
def reuse(held_ids, prompt_ids):
    keep = 0
    for held, wanted in zip(held_ids, prompt_ids[:-1], strict=False):
        if held != wanted:
            break
        keep += 1
    keep = max(keep - 1, 0)
    return keep, prompt_ids[keep:]
