from itertools import takewhile


def computed(prompts):
    held, answer = (), []
    for prompt in map(tuple, prompts):
        pairs = zip(held, prompt, strict=False)
        same = sum(1 for _ in takewhile(lambda p: p[0] == p[1], pairs))
        answer.append(max(1, len(prompt) - same))
        held = prompt
    return tuple(answer)
