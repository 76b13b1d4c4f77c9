# Fails: test_generate_end
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, made = None, []
    for start in range(0, len(prompt_ids), chunk):
        scores, kept = model(list(prompt_ids[start : start + chunk]), kept)
        if scores.index(max(scores)) in stop:
            break
    while True:
        token = scores.index(max(scores))
        made.append((token, clock()))
        if len(made) == new_tokens or token in stop:
            return made
        scores, kept = model([token], kept)
