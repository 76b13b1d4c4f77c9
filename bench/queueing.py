"""Does a queue on a real server wait as long as the formula says?

    python bench/queueing.py            # run, print, keep the result
    python bench/queueing.py --parts 1  # one part more of a run
    python bench/queueing.py --show     # the kept result as Markdown

A scripted server with one slot, at 80 % of its capacity. Each replication has
a server, services and arrivals of its own; a 95 % interval is made of their
mean waits. A part is the replications of one distribution of service times
and one seed; what is done of them is kept, and the next call goes on.
Simulated runs say how often such intervals hold the formula's value, and how
often those do that take one run's requests for independent.

Fixed before the run: seeds and sizes below; the formula is judged at the rate
that was asked for, with the mean and variance of service times that were
measured.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from random import Random

import keeping
import queueing_report
from queueing_report import (
    Cell,
    Coverage,
    Protocol,
    Replication,
    Report,
    Watched,
)

from labkit import (
    documents,
    machine,
    queue_simulation,
    queueing,
    results,
    stats,
    store,
)
from labkit.errors import LabError
from labkit.loadtest import drive, metrics, schedule, timelines
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Record, Request
from labkit.loadtest.scripted import ScriptedServer
from labkit.queue_simulation import Visit

FILE = "queueing.json"
UNFINISHED = "queueing.unfinished.json"

MEAN_S = 0.020
CAPACITY_SHARE = 0.8
PROTOCOL = Protocol(
    mean_s=MEAN_S,
    rate_per_s=CAPACITY_SHARE / MEAN_S,
    requests=2000,
    # A line of exponential services forgets how it began within about 90
    # services at 80 %; these are 375.
    warmup=300,
    replications=20,
    # With ten the bench itself keeps two cores too busy to send on time.
    together=4,
    services={"exponential": 1.0, "constant": 0.0},
    seeds=(1, 2, 3),
    simulated_sets=200,
)


def drawn(protocol: Protocol, service: str, source: Random) -> list[float]:
    """The service times of one replication."""
    variation = protocol.services[service]
    return queue_simulation.with_spread(
        protocol.mean_s, variation, protocol.requests, source
    )


def replication(visits: Sequence[Visit]) -> Replication:
    """What is kept of the visits after warm-up."""
    waits_s = [visit.wait_s for visit in visits]
    services_s = [visit.end_s - visit.start_s for visit in visits]
    naive = stats.mean_interval(waits_s)
    assert naive is not None
    span_s = visits[-1].arrival_s - visits[0].arrival_s
    return Replication(
        wait_s=statistics.fmean(waits_s),
        naive_low_s=naive.low,
        naive_high_s=naive.high,
        rate_per_s=(len(visits) - 1) / span_s,
        service_mean_s=statistics.fmean(services_s),
        service_variance_s2=statistics.pvariance(services_s),
    )


# On servers -----------------------------------------------------------------


def replicate(
    protocol: Protocol, service: str, seed: int, place: int
) -> tuple[Replication, Watched]:
    """One replication, on a server of its own."""
    source = Random(f"{service} {seed} {place}")  # noqa: S311 - no secret
    services_s = drawn(protocol, service, source)
    script = [timelines.one_by_one([each * 1e3]) for each in services_s]
    # A seed of its own: equal ones would tie arrivals to services.
    offsets_ns = schedule.poisson_ns(
        protocol.rate_per_s, protocol.requests, source.getrandbits(63)
    )
    requests = [
        Request(f"r{number:05d}", new_tokens=1, prompt_ids=(1,))
        for number in range(protocol.requests)
    ]
    with ScriptedServer(script, slots=1) as server:
        with Client(LabTarget(server.url)) as client:
            records = drive.open_loop(client, requests, offsets_ns)
        played = server.truth()
    visits = [visit(each) for each in played[protocol.warmup :]]
    ideal = queue_simulation.simulate(
        [offset / 1e9 for offset in offsets_ns], services_s
    )
    seen = watched(records, played, ideal, protocol.warmup)
    return replication(visits), seen


def visit(played: Played) -> Visit:
    """The server's own account of a request, in seconds."""
    start_ns, end_ns = played.start_ns, played.end_ns
    if start_ns is None or end_ns is None:
        raise LabError(
            f"Request {played.request} was not played to its end: run again."
        )
    return Visit(played.read_ns / 1e9, start_ns / 1e9, end_ns / 1e9)


def watched(
    records: Sequence[Record],
    played: Sequence[Played],
    ideal: Sequence[Visit],
    warmup: int,
) -> Watched:
    """The same requests as their clients saw them, and without a machine."""
    by_name = {record.request: record for record in records}
    waits_s, late_s = [], []
    for each in played[warmup:]:
        record = by_name[each.request]
        seen_ms, own = metrics.e2e_ms(record), visit(each)
        if record.ok and seen_ms is not None:
            waits_s.append(seen_ms / 1e3 - (own.end_s - own.start_s))
        late_s.append((each.read_ns - (record.due_ns or 0)) / 1e9)
    worst_s = stats.percentile(late_s, 99)
    return Watched(
        wait_s=statistics.fmean(waits_s),
        ideal_wait_s=statistics.fmean(one.wait_s for one in ideal[warmup:]),
        late_s=max(late_s) if worst_s is None else worst_s,
        failed=sum(not record.ok for record in records),
    )


def measure(protocol: Protocol, service: str, seed: int) -> Cell:
    """All replications of one distribution and one seed."""
    started = results.timestamp(datetime.now(UTC))
    begin = time.perf_counter()
    places = range(protocol.replications)
    found: list[tuple[Replication, Watched]] = []
    with ThreadPoolExecutor(protocol.together) as pool:
        # Batch by batch, so that servers start while none is measured.
        for first in range(0, protocol.replications, protocol.together):
            found += pool.map(
                lambda place: replicate(protocol, service, seed, place),
                places[first : first + protocol.together],
            )
    return Cell(
        service=service,
        seed=seed,
        started_utc=started,
        seconds=time.perf_counter() - begin,
        replications=tuple(one for one, _ in found),
        watched=tuple(seen for _, seen in found),
    )


# Simulated ------------------------------------------------------------------


def simulate(protocol: Protocol, service: str) -> Coverage:
    """How often intervals of simulated runs hold the formula's value.

    The naive ones should hold it at the parameters that were drawn from; a
    set of runs is judged as a cell is.
    """
    source = Random(f"simulated {service}")  # noqa: S311 - no secret
    mean_s, rate = protocol.mean_s, protocol.rate_per_s
    deviation_s = protocol.services[service] * mean_s
    true_s = queueing.mg1_wait_s(rate, mean_s, deviation_s**2)
    assert true_s is not None
    naive = inside = 0
    for _ in range(protocol.simulated_sets):
        runs = [
            simulated_run(protocol, service, source)
            for _ in range(protocol.replications)
        ]
        naive += queueing_report.naive_hits(runs, true_s)
        inside += queueing_report.judge(runs, rate).inside
    sets = protocol.simulated_sets
    return Coverage(service, sets * protocol.replications, naive, sets, inside)


def simulated_run(
    protocol: Protocol, service: str, source: Random
) -> Replication:
    """One run of the size of a replication."""
    services_s = drawn(protocol, service, source)
    arrivals_s = queue_simulation.poisson_arrivals(
        protocol.rate_per_s, protocol.requests, source
    )
    visits = queue_simulation.simulate(arrivals_s, services_s)
    return replication(visits[protocol.warmup :])


# The whole ------------------------------------------------------------------

Part = Callable[[Report], Report]


def parts_left(report: Report) -> list[Part]:
    """What is still to be done of a run, in order."""
    asked = report.protocol
    measured = {(cell.service, cell.seed) for cell in report.cells}
    simulated = {one.service for one in report.simulated}
    cells = [
        _measuring(service, seed)
        for seed in asked.seeds
        for service in asked.services
        if (service, seed) not in measured
    ]
    rest = [
        _simulating(service)
        for service in asked.services
        if service not in simulated
    ]
    return cells + rest


def _measuring(service: str, seed: int) -> Part:
    def part(report: Report) -> Report:
        print(f"{service} services, seed {seed} ...", flush=True)
        cell = measure(report.protocol, service, seed)
        return replace(report, cells=(*report.cells, cell))

    return part


def _simulating(service: str) -> Part:
    def part(report: Report) -> Report:
        print(f"{service} services, simulated ...", flush=True)
        found = simulate(report.protocol, service)
        return replace(report, simulated=(*report.simulated, found))

    return part


def begun(path: Path) -> Report:
    """The unfinished run of this machine, or a new one."""
    fresh = Report(
        started_utc=results.timestamp(datetime.now(UTC)),
        machine=machine.identify(),
        software=machine.software(),
        protocol=PROTOCOL,
    )
    if not path.exists():
        return fresh
    kept = queueing_report.from_json(documents.read(path))
    same = replace(fresh, started_utc=kept.started_utc) == replace(
        kept, cells=(), simulated=()
    )
    if not same:
        raise LabError(
            f"{path} is of another protocol, machine or software: delete it."
        )
    return kept


def run(folder: Path, most: int | None) -> Report | None:
    """Do at most so many parts; the report, once it is finished."""
    unfinished = folder / UNFINISHED
    report = begun(unfinished)
    for part in islice(parts_left(report), most):
        report = part(report)
        store.write_text(unfinished, queueing_report.to_text(report))
    if parts_left(report):
        return None
    store.write_text(folder / FILE, queueing_report.to_text(report))
    unfinished.unlink()
    return report


def main() -> None:
    """Run, or show what was kept; status 1 when something does not hold."""
    parser = keeping.arguments(__doc__, FILE)
    parser.add_argument(
        "--parts", type=int, help="do at most so many parts in this call"
    )
    asked = parser.parse_args()
    if asked.show is not None:
        keeping.show(queueing_report, asked.show)
        return
    path = keeping.path_here(FILE)
    report = run(path.parent, asked.parts)
    if report is None:
        print("Not finished; the next call goes on.")
        return
    print(queueing_report.as_text(report), flush=True)
    print(f"\nKept in {path}")
    keeping.require(queueing_report, report)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(str(error))
