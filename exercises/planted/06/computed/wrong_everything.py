# Fails: all
def computed(prompts):
    return [len(prompt) for prompt in prompts]
