def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    waiting = list(prompt_ids)
    kept, made = None, []
    while waiting:
        part, waiting = waiting[:chunk], waiting[chunk:]
        scores, kept = model(part, kept)
        if waiting:
            continue
        token = max(range(len(scores)), key=lambda i: scores[i])
        made.append((token, clock()))
        if len(made) < new_tokens and token not in stop:
            waiting = [token]
    return made
