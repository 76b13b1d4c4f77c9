# Fails: test_generate_pieces, test_generate_end, test_generate_times
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, made = None, []
    for _ in [0]:
        part = list(prompt_ids)
        scores, kept = model(part, kept)
    while True:
        token = scores.index(max(scores))
        made.append((token, clock()))
        if len(made) == new_tokens or token in stop:
            return made
        scores, kept = model([token], kept)
