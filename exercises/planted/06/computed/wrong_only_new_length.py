# Fails: test_computed_changed
def computed(prompts):
    counts, before = [], 0
    for prompt in prompts:
        counts.append(max(1, len(prompt) - before))
        before = len(prompt)
    return counts
