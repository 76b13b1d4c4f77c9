# Fails: all
def fair(requests):
    starts = [None] * len(requests)
    line, waiting = [], {}
    free, come = 0, 0
    while None in starts:
        now = free if line else max(free, requests[come][1])
        while come < len(requests) and requests[come][1] <= now:
            client = requests[come][0]
            held = waiting.setdefault(client, [])
            if client not in line:
                line.append(client)
            held.append(come)
            come += 1
        client = line.pop(0)
        taken = waiting[client].pop(0)
        if waiting[client]:
            line.append(client)
        starts[taken] = now
        free = now + requests[taken][2] / 2
    return starts
