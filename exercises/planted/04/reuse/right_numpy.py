import numpy as np


def reuse(held_ids, prompt_ids):
    shared = min(len(held_ids), len(prompt_ids) - 1)
    held, wanted = (np.array(ids[:shared]) for ids in (held_ids, prompt_ids))
    differs = np.flatnonzero(held != wanted)
    keep = differs[0] if len(differs) else np.int64(shared)
    return keep, np.array(prompt_ids)[keep:]
