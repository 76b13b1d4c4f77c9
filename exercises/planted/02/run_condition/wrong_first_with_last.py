# Fails: test_condition_identical
def run_condition(generate, passage, size, new, warmups, repeats):
    prompt = (passage * (size // len(passage) + 1))[:size]
    outputs = [generate(prompt, new) for _ in range(warmups + repeats)]
    measured = outputs[warmups:]
    return {
        "prompt_ids": prompt,
        "outputs": measured,
        "identical": measured[0] == measured[-1],
    }
