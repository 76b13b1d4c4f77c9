# Fails: test_generate_times
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, made = None, []
    for start in range(0, len(prompt_ids), chunk):
        now = clock()
        scores, kept = model(list(prompt_ids[start : start + chunk]), kept)
    while True:
        token = scores.index(max(scores))
        made.append((token, now))
        if len(made) == new_tokens or token in stop:
            return made
        now = clock()
        scores, kept = model([token], kept)
