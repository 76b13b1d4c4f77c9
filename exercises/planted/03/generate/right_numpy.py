import numpy as np


def generate(model, prompt_ids, new_tokens, chunk, stop, clock):
    prompt, kept, made = np.array(prompt_ids), None, []
    for part in np.split(prompt, range(chunk, len(prompt), chunk)):
        scores, kept = model(part.tolist(), kept)
    for left in reversed(range(new_tokens)):
        best = np.argmax(scores)
        made.append([best, clock()])
        if left == 0 or best in list(stop):
            break
        scores, kept = model([int(best)], kept)
    return made
