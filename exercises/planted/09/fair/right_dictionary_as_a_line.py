def fair(requests):
    """A dictionary keeps its clients in the order in which they joined."""
    line, starts = {}, {}
    rest = list(enumerate(requests))
    now = float("-inf")
    while rest or line:
        if not line:
            now = max(now, rest[0][1][1])
        while rest and rest[0][1][1] <= now:
            number, (client, _, service) = rest.pop(0)
            line.setdefault(client, []).append((number, service))
        client = next(iter(line))
        (number, service), *more = line.pop(client)
        if more:
            line[client] = more
        starts[number] = now
        now += service
    return [starts[number] for number in range(len(requests))]
