# Fails: test_generate_end
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    ids, kept, made = list(prompt_ids), None, []
    for start in range(0, len(prompt_ids), chunk):
        scores, kept = model(ids[start : start + chunk], kept)
    while True:
        ids.append(scores.index(max(scores)))
        made.append((ids[-1], clock()))
        if len(made) == new_tokens or any(i in stop for i in ids):
            return made
        scores, kept = model(ids[-1:], kept)
