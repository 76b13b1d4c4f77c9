# Fails: test_generate_pieces, test_generate_end
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, made = None, []
    for start in range(0, len(prompt_ids), chunk):
        scores, kept = model(list(prompt_ids[start : start + chunk]), kept)
    while len(made) < new_tokens and not (made and made[-1][0] in stop):
        token = scores.index(max(scores))
        made.append((token, clock()))
        scores, kept = model([token], kept)
    return made
