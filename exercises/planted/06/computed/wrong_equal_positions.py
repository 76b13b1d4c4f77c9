# Fails: test_computed_changed
def computed(prompts):
    counts, held = [], []
    for prompt in prompts:
        equal = [a == b for a, b in zip(held, prompt, strict=False)]
        counts.append(max(1, len(prompt) - sum(equal)))
        held = prompt
    return counts
