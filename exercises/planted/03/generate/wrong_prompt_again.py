# Fails: test_generate_pieces, test_generate_times
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, made = None, []
    for start in range(0, len(prompt_ids), chunk):
        part = list(prompt_ids[start : start + chunk])
        scores, kept = model(part, kept)
    while True:
        token = scores.index(max(scores))
        made.append((token, clock()))
        if len(made) == new_tokens or token in stop:
            return made
        scores, kept = model([*prompt_ids, *(t for t, _ in made)], None)
