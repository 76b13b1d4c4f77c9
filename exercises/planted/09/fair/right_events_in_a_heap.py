import heapq
from collections import OrderedDict, deque

import numpy as np


def fair(requests):
    """Two kinds of events: 0 an arrival, 1 the slot looks for work."""
    events = [(arrival, 0, n) for n, (_, arrival, _) in enumerate(requests)]
    events += [(arrival, 1, -1) for _, arrival, _ in requests]
    heapq.heapify(events)
    line, later = OrderedDict(), {}
    starts = np.full(len(requests), np.nan)
    free = -np.inf
    while events:
        now, kind, n = heapq.heappop(events)
        if kind == 0:
            client = requests[n][0]
            later.setdefault(client, deque()).append(n)
            line.setdefault(client)
        elif line and now >= free:
            client, _ = line.popitem(last=False)
            n = later[client].popleft()
            if later[client]:
                line[client] = None
            starts[n] = now
            free = now + requests[n][2]
            heapq.heappush(events, (free, 1, -1))
    return starts
