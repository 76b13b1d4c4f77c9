# Fails: test_one_client, test_turns, test_joining, test_same_moment, test_many
def fair(requests):
    starts = [None] * len(requests)
    free = 0
    while None in starts:
        left = [n for n, start in enumerate(starts) if start is None]
        now = max(free, min(requests[n][1] for n in left))
        here = [n for n in left if requests[n][1] <= now]
        taken = min(here, key=lambda n: (requests[n][2], n))
        starts[taken] = now
        free = now + requests[taken][2]
    return starts
