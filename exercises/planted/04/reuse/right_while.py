def reuse(held_ids, prompt_ids):
    keep = 0
    while (
        keep < len(held_ids)
        and keep < len(prompt_ids) - 1
        and held_ids[keep] == prompt_ids[keep]
    ):
        keep += 1
    return [keep, tuple(prompt_ids[keep:])]
