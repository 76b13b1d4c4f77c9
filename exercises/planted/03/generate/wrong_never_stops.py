# Fails: test_generate_end
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, made = None, []
    for start in range(0, len(prompt_ids), chunk):
        part = list(prompt_ids[start : start + chunk])
        scores, kept = model(part, kept)
    while True:
        token = scores.index(max(scores))
        made.append((token, clock()))
        if len(made) == new_tokens:
            return made
        scores, kept = model([token], kept)
