def fair(requests):
    """The head of each client has a key: when its client joined the line."""
    starts = [None] * len(requests)
    own = {}
    for number, request in enumerate(requests):
        own.setdefault(request[0], []).append(number)
    before = dict.fromkeys(own)
    free = float("-inf")
    for _ in requests:
        heads = [numbers[0] for numbers in own.values() if numbers]
        now = max(free, min(requests[n][1] for n in heads))

        def joined(n):
            client, arrival, _ = requests[n]
            last = before[client]
            if last is not None and arrival <= last:
                return last, 1, 0
            return arrival, 0, n

        heads = [n for n in heads if requests[n][1] <= now]
        taken = min(heads, key=joined)
        client, _, service = requests[taken]
        own[client].remove(taken)
        starts[taken] = before[client] = now
        free = now + service
    return starts
