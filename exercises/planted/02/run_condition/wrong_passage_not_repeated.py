# Fails: test_condition_prompt
def run_condition(generate, passage, size, new, warmups, repeats):
    prompt = passage[:size]
    outputs = [generate(prompt, new) for _ in range(warmups + repeats)]
    measured = outputs[warmups:]
    return {
        "prompt_ids": prompt,
        "outputs": measured,
        "identical": all(out == measured[0] for out in measured),
    }
