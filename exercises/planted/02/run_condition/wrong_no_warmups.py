# Fails: test_condition_runs, test_condition_identical
def run_condition(generate, passage, size, new, warmups, repeats):
    prompt = (passage * (size // len(passage) + 1))[:size]
    outputs = [generate(prompt, new) for _ in range(repeats)]
    measured = outputs
    return {
        "prompt_ids": prompt,
        "outputs": measured,
        "identical": all(out == measured[0] for out in measured),
    }
