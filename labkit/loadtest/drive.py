"""Drives a server from a notebook, and keeps the records in memory.

The loops are those of a load test. A test that is to be kept, resumed or
shown to others needs evidence: `runner.run`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.errors import LabError
from labkit.loadtest.loops import Load, Sender
from labkit.loadtest.plan import Configuration, Phase, refuse_doubles
from labkit.loadtest.records import Arrival, Record, Request
from labkit.progress import Progress, Silent


def open_loop(
    sender: Sender,
    requests: Sequence[Request],
    offsets_ns: Sequence[int],
    *,
    most_in_flight: int | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """Each request when it is due, whatever became of others.

    `offsets_ns` has a moment for each request, as `schedule` gives them; the
    earliest is due at once. With `most_in_flight` one that is due waits
    until there is room. The records are in the order of the requests, with
    `due_ns`. LabError when the offsets are too few or too many,
    or two requests have one name.
    """
    Configuration(
        "An open loop", arrivals="recorded", most_in_flight=most_in_flight
    )
    if len(requests) != len(offsets_ns):
        raise LabError(
            f"There are {len(requests)} requests and {len(offsets_ns)}"
            " offsets: give one offset for each request."
        )
    driven = _driven(requests, offsets_ns)
    with _Memory() as memory:
        load = Load(memory, progress or Silent(0), memory.stop)
        load.open(sender, driven, most_in_flight)
    return memory.records()


def closed_loop(
    sender: Sender,
    requests: Sequence[Request],
    clients: int,
    *,
    think_s: float = 0.0,
    progress: Progress | None = None,
) -> list[Record]:
    """Each client sends the next request when its last one is over.

    Between the two it thinks for `think_s` seconds. The records are in the
    order of the requests; those that were released at once, one for each of
    several clients, are marked as start-up. LabError for less than one
    client, for a time to think that is none, or for two requests of one
    name.
    """
    asked = Configuration("A closed loop", clients=clients)
    if not 0 <= think_s <= threading.TIMEOUT_MAX:
        raise LabError(f"Nobody thinks for {think_s} s: give 0 or more.")
    driven = _driven(requests, [None] * len(requests))
    with _Memory() as memory:
        load = Load(memory, progress or Silent(0), memory.stop)
        load.closed(sender, driven, clients, think_s)
    found = memory.records()
    by_sent = sorted(found, key=lambda record: record.sent_ns)
    first = {record.request for record in by_sent[: asked.burst]}
    return [replace(each, startup=each.request in first) for each in found]


@dataclass(frozen=True)
class _Driven:
    """A request, and its place among the others."""

    place: int
    request: Request
    offset_ns: int | None = None
    phase: Phase = "measured"

    def to_send(self) -> Request:
        return self.request


def _driven(
    requests: Sequence[Request], offsets_ns: Sequence[int | None]
) -> list[_Driven]:
    refuse_doubles([request.name for request in requests])
    pairs = zip(requests, offsets_ns, strict=True)
    return [_Driven(place, *pair) for place, pair in enumerate(pairs)]


class _Memory:
    """Keeps records; when the block ends, by Ctrl-C too, no more is sent."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._found: dict[int, Record] = {}

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()

    def records(self) -> list[Record]:
        """In the order of the requests."""
        return [record for _, record in sorted(self._found.items())]

    def sent(self, request: str, time_ns: int) -> None:
        """It will be in the record."""

    def arrived(self, request: str, arrival: Arrival) -> None:
        """It will be in the record."""

    def finished(self, record: Record, planned: _Driven) -> None:
        """Keep it."""
        self._found[planned.place] = record

    def check(self) -> None:
        """Nothing goes wrong with memory."""
