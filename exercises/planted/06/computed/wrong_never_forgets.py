# Fails: test_computed_changed, test_computed_last
def computed(prompts):
    counts, held = [], []
    for prompt in prompts:
        same = 0
        most = min(len(held), len(prompt) - 1)
        while same < most and held[same] == prompt[same]:
            same += 1
        counts.append(len(prompt) - same)
        held = prompt if same == len(held) else held
    return counts
