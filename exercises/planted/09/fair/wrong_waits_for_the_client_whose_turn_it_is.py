# Fails: test_turns, test_joining, test_pauses, test_same_moment, test_many
def fair(requests):
    starts = [None] * len(requests)
    own = {}
    for n, (client, _, _) in enumerate(requests):
        own.setdefault(client, []).append(n)
    free = 0
    while any(own.values()):
        for numbers in own.values():
            if numbers:
                taken = numbers.pop(0)
                starts[taken] = max(free, requests[taken][1])
                free = starts[taken] + requests[taken][2]
    return starts
