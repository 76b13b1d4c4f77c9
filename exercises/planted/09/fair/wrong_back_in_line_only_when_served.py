# Fails: test_turns, test_joining, test_pauses, test_same_moment, test_many
def fair(requests):
    starts = [None] * len(requests)
    line, waiting = [], {}
    free, come, served = 0, 0, None
    while None in starts:
        more = served is not None and waiting[served]
        now = free if line or more else max(free, requests[come][1])
        while come < len(requests) and requests[come][1] <= now:
            client = requests[come][0]
            waiting.setdefault(client, []).append(come)
            if client not in line and client != served:
                line.append(client)
            come += 1
        if served is not None and waiting[served]:
            line.append(served)
        served = line.pop(0)
        taken = waiting[served].pop(0)
        starts[taken] = now
        free = now + requests[taken][2]
    return starts
