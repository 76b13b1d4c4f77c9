"""One slot whose line is bounded, simulated request by request.

`queue_simulation` lets everybody wait. Here a request that finds the line
full is refused, and takes no time of the server. Seconds; standard library
only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from labkit.errors import LabError
from labkit.queue_simulation import Visit, simulate


def visits(
    arrivals_s: Sequence[float],
    services_s: Sequence[float],
    max_waiting: int | None = None,
) -> list[Visit | None]:
    """The visit of each request, in order of arrival; None: refused.

    A request that comes while one is served and `max_waiting` wait is
    refused, and its service time used by nobody. Without `max_waiting`
    nobody is. LabError for a negative one, and for what
    `queue_simulation.simulate` refuses.
    """
    if max_waiting is None:
        return list(simulate(arrivals_s, services_s))
    if max_waiting < 0:
        raise LabError(f"max_waiting is {max_waiting}: give 0 or more.")
    simulate(arrivals_s, services_s)  # for what it refuses
    found: list[Visit | None] = []
    ends_s: deque[float] = deque()
    for arrival_s, service_s in zip(arrivals_s, services_s, strict=True):
        while ends_s and ends_s[0] <= arrival_s:
            ends_s.popleft()
        if len(ends_s) > max_waiting:
            found.append(None)
            continue
        start_s = ends_s[-1] if ends_s else arrival_s
        ends_s.append(start_s + service_s)
        found.append(Visit(arrival_s, start_s, ends_s[-1]))
    return found
