from itertools import cycle, islice

import numpy as np


def run_condition(model, text, n_in, n_out, discarded, kept):
    prompt = np.fromiter(islice(cycle(text), n_in), dtype=np.int64)
    results = []
    for turn in range(discarded + kept):
        tokens = tuple(model(prompt, n_out))
        if turn >= discarded:
            results.append(tokens)
    same = np.bool_(len(set(results)) == 1)
    return {
        "prompt_ids": prompt,
        "outputs": results,
        "identical": same,
        "prompt_tokens": n_in,
    }
