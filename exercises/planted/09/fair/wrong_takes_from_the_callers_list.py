# Fails: test_one_client
def fair(requests):
    starts, line, free = {}, {}, 0
    count = len(requests)
    while len(starts) < count:
        now = free if line else max(free, requests[0][1])
        while requests and requests[0][1] <= now:
            number = count - len(requests)
            client, _, service = requests.pop(0)
            line.setdefault(client, []).append((number, service))
        client = next(iter(line))
        (number, service), *more = line.pop(client)
        if more:
            line[client] = more
        starts[number] = now
        free = now + service
    return [starts[n] for n in range(count)]
