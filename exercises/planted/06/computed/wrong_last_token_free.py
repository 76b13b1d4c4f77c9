# Fails: test_computed_last
def computed(prompts):
    counts, held = [], []
    for prompt in prompts:
        same = 0
        most = min(len(held), len(prompt))
        while same < most and held[same] == prompt[same]:
            same += 1
        counts.append(len(prompt) - same)
        held = prompt
    return counts
