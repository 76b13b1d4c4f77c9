# Fails: test_generate_times
def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    kept, new = None, []
    for start in range(0, len(prompt_ids), chunk):
        scores, kept = model(list(prompt_ids[start : start + chunk]), kept)
    while True:
        new.append(scores.index(max(scores)))
        if len(new) == new_tokens or new[-1] in stop:
            end = clock()
            return [(token, end) for token in new]
        scores, kept = model(new[-1:], kept)
