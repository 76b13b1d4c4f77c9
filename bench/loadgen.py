"""How precisely does the load generator stamp what arrives?

    python bench/loadgen.py           # measure, print, keep the result
    python bench/loadgen.py --show    # the kept result as Markdown

A scripted server in a process of its own writes tokens on an absolute
schedule and stamps each write just before it; labkit's client, in this one,
stamps each arrival on the same clock. Their difference is the error, and
holds the system's own time between send and receive. How late the server is
against its schedule is no error of the client's and stands apart.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

import keeping
import loadgen_report as reports
from loadgen_report import AT_ONCE, NEW, REUSED, Report

from labkit import machine, observations, results
from labkit.errors import LabError
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.records import Record, Request
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.timelines import one_by_one
from labkit.timing import Trials, measure

FILE = "loadgen.json"
STREAMS, TOKENS, GAP_MS, FIRST_MS = 50, 100, 20.0, 50.0
ROUNDS, WARMUPS = 3, 1
STAGGER_MS = 17.3
"""Between two starts: no multiple of the gap, so that the writes of the
streams spread over it."""
START_MS = 100.0
"""From the making of the threads to the first start."""


def send_all(
    client: Client, names: Iterator[int], stagger_ms: float
) -> list[Record]:
    """One request in each of STREAMS threads, all in flight together."""
    records: list[Record] = []
    start_ns = time.perf_counter_ns() + round(START_MS * 1e6)

    def send(place: int, request: Request) -> None:
        due_ns = start_ns + round(place * stagger_ms * 1e6)
        time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
        records.append(client.send(request, due_ns=due_ns))

    threads = [
        threading.Thread(
            target=send,
            args=(place, Request(f"m{next(names):05}", TOKENS, text="a")),
        )
        for place in range(STREAMS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return records


def wave(
    server: ScriptedServer,
    client: Callable[[], Client],
    names: Iterator[int],
    stagger_ms: float,
) -> dict[str, Any]:
    """Send, and compare with what was played.

    A client that was made for the wave opens connections; one that has had
    STREAMS requests in flight has that many to use again.
    """
    records = send_all(client(), names, stagger_ms)
    played = {each.request: each for each in server.truth()}
    return asdict(reports.compare(records, played))


def run() -> Trials[dict[str, Any]]:
    """All conditions, in shuffled order in each round."""
    script = [one_by_one([FIRST_MS + GAP_MS * k for k in range(TOKENS)], 1)]
    names = count()
    with ScriptedServer(script) as server:
        target = LabTarget(server.url)
        with Client(target, keep_alive=True) as kept:
            send_all(kept, names, 0)  # opens the connections
            fresh = partial(Client, target)
            waves = {
                NEW: partial(wave, server, fresh, names, STAGGER_MS),
                REUSED: partial(wave, server, lambda: kept, names, STAGGER_MS),
                AT_ONCE: partial(wave, server, fresh, names, 0),
            }
            trials = measure(
                waves,
                repeats=ROUNDS,
                warmups=WARMUPS,
                sampler=partial(observations.sample, [server.pid]),
            )
    if not trials.complete:
        raise LabError("The run was interrupted, so nothing is kept.")
    return trials


def measured() -> Report:
    """Run everything and put it together."""
    started = results.timestamp(datetime.now(UTC))
    trials = run()
    return Report(
        started_utc=started,
        machine=machine.identify(),
        software=machine.software(),
        protocol=results.Protocol.of(
            f"precision at {STREAMS} streams, version 2",
            trials.schedule,
            STREAMS,
        ),
        streams=STREAMS,
        gap_ms=GAP_MS,
        tokens=TOKENS,
        observations=trials.observations,
    )


if __name__ == "__main__":
    try:
        keeping.run_or_show(__doc__, FILE, reports, measured)
    except LabError as error:
        sys.exit(str(error))
