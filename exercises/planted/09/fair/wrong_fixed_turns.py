# Fails: test_turns, test_joining, test_pauses, test_same_moment, test_many
def fair(requests):
    starts = [None] * len(requests)
    clients = list(dict.fromkeys(client for client, *_ in requests))
    free, turn = 0, 0
    while None in starts:
        left = [n for n, start in enumerate(starts) if start is None]
        now = max(free, min(requests[n][1] for n in left))
        here = [n for n in left if requests[n][1] <= now]
        while not any(requests[n][0] == clients[turn] for n in here):
            turn = (turn + 1) % len(clients)
        taken = next(n for n in here if requests[n][0] == clients[turn])
        turn = (turn + 1) % len(clients)
        starts[taken] = now
        free = now + requests[taken][2]
    return starts
