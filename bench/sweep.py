"""Does the bisection find the highest rate of a server where it is known?

    python bench/sweep.py           # run, print, keep the result
    python bench/sweep.py --show    # the kept result as Markdown

Scripted servers with one slot and a constant service time, in processes of
their own, a run of each rate on each. Evenly spaced requests: the highest
rate is one over the service time. Random ones (M/D/1): it comes from a long
simulation.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, count

import keeping
import sweep_report
from sweep_report import REACH, Case, Report, Virtual

from labkit import machine, results
from labkit.errors import LabError
from labkit.loadtest import drive, rates, schedule
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.rates import Objectives
from labkit.loadtest.records import Record, Request
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.sweep import Count, Measure, Probe, Search, highest_rate
from labkit.loadtest.timelines import one_by_one
from labkit.queue_simulation import poisson_arrivals, simulate

FILE = "sweep.json"
SEED = 10
CONFIDENCE = 0.95
LONG = 1_000_000
"""Requests of the simulation that says what the rate is."""
VIRTUAL_SEARCHES = 40
MOST_LATE = 2.0
"""Service times by which client and server may be late."""
MOST_VOID = 10
"""Measurements of one rate in a row."""

Offsets = Callable[[float, int, int], list[int]]
"""From a rate, how many and a seed: moments in ns."""


@dataclass(frozen=True)
class Asked:
    """What is searched, and how; rates are from `low` to `high` of capacity.

    `wait` is in service times.
    """

    name: str
    offsets: Offsets
    wait: float
    goal: float
    tolerance: float
    runs: int
    requests: int
    skipped: int
    low: float
    high: float
    service_s: float = 0.05
    most_repeats: int = 2
    most_probes: int = 8


EVEN = Asked(
    name="evenly spaced requests",
    offsets=lambda rate, n, _: schedule.constant_ns(rate, n),
    wait=2.5,
    goal=0.99,
    tolerance=0.03,
    runs=2,
    requests=300,
    skipped=0,
    low=0.5,
    high=1.5,
)
RANDOM = Asked(
    name="random requests",
    offsets=schedule.poisson_ns,
    wait=2.5,
    goal=0.9,
    tolerance=0.05,
    runs=40,
    requests=75,
    skipped=20,
    low=0.4,
    high=0.9,
    service_s=0.2,
)
"""Long services, so that what a machine's stall adds to a wait is little."""


class Bench:
    """Drives the servers of one case.

    A measurement in which this machine stalled is void and made again: the
    servers had other arrivals than were asked for. `void` counts them.
    """

    def __init__(
        self, asked: Asked, servers: Sequence[ScriptedServer]
    ) -> None:
        self._asked = asked
        self._servers = servers
        self._seeds = count(SEED)
        self._played = [0] * len(servers)
        self.void = 0
        self.latest_ms = 0.0

    def measure(self, rate_per_s: float) -> list[Count]:
        """A run on each server at once, each with a seed of its own."""
        for _ in range(MOST_VOID):
            print(f"{self._asked.name}: {rate_per_s:.3f}/s", flush=True)
            runs = self._together(rate_per_s)
            late_ms = max(late for _, late in runs)
            if late_ms <= 1e3 * MOST_LATE * self._asked.service_s:
                self.latest_ms = max(self.latest_ms, late_ms)
                return [found for found, _ in runs]
            self.void += 1
        raise LabError(
            f"This machine stalled in {MOST_VOID} measurements in a row:"
            " close other programs and try again."
        )

    def _together(self, rate_per_s: float) -> list[tuple[Count, float]]:
        places = range(len(self._servers))
        seeds = [next(self._seeds) for _ in places]
        with ThreadPoolExecutor(len(self._servers)) as pool:
            run = partial(self._run, rate_per_s)
            return list(pool.map(run, places, seeds))

    def _run(
        self, rate_per_s: float, place: int, seed: int
    ) -> tuple[Count, float]:
        """Good requests, and by how many ms client or server were late."""
        asked, server = self._asked, self._servers[place]
        offsets = asked.offsets(rate_per_s, asked.requests, seed)
        requests = [
            Request(f"m{k}", 1, text="Hi") for k in range(len(offsets))
        ]
        with Client(LabTarget(server.url)) as client:
            records = drive.open_loop(client, requests, offsets)
        played = server.truth()[self._played[place] :]
        self._played[place] += len(played)
        found = rates.goodput(records[asked.skipped :], objectives(asked))
        late_ms = max(map(sent_late_ms, records))
        for write in (write for each in played for write in each.writes):
            late_ms = max(late_ms, (write.write_ns - write.due_ns) / 1e6)
        return Count(found.met, found.total), late_ms


def objectives(asked: Asked) -> Objectives:
    """A first token after the service and the longest wait."""
    return Objectives(ttft_ms=1e3 * asked.service_s * (1 + asked.wait))


def sent_late_ms(record: Record) -> float:
    """How much later than it was due a request was sent."""
    return (record.sent_ns - (record.due_ns or record.sent_ns)) / 1e6


def search(asked: Asked, known_per_s: float, source: str) -> Case:
    """Search on servers of their own."""
    begin = time.perf_counter()
    script = [one_by_one([1e3 * asked.service_s])]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(ScriptedServer(script, slots=1))
            for _ in range(asked.runs)
        ]
        bench = Bench(asked, servers)
        probes = probes_of(asked, bench.measure)
    return Case(
        name=asked.name,
        source=source,
        known_per_s=known_per_s,
        service_s=asked.service_s,
        wait=asked.wait,
        goal=asked.goal,
        tolerance=asked.tolerance,
        confidence=CONFIDENCE,
        runs=asked.runs,
        requests=asked.requests,
        skipped=asked.skipped,
        seconds=time.perf_counter() - begin,
        latest_ms=bench.latest_ms,
        void=bench.void,
        probes=probes,
    )


def probes_of(asked: Asked, measure: Measure) -> tuple[Probe, ...]:
    """What a search between the two ends measures."""
    return highest_rate(
        measure,
        asked.low / asked.service_s,
        asked.high / asked.service_s,
        goal=asked.goal,
        tolerance=asked.tolerance,
        most_repeats=asked.most_repeats,
        most_probes=asked.most_probes,
        confidence=CONFIDENCE,
    ).probes


# What is known --------------------------------------------------------------


def bisect(share_at: Callable[[float], float], goal: float) -> float:
    """The highest load whose share is the goal; shares without noise."""
    low, high = 0.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if share_at(middle) >= goal else (low, middle)
        )
    return low


def simulated_per_s(asked: Asked, requests: int = LONG) -> float:
    """By a long simulation: the same gaps, stretched for every rate."""
    drawn = random.Random(SEED)  # noqa: S311 - no secret
    moments = list(accumulate(drawn.expovariate(1.0) for _ in range(requests)))
    services = [1.0] * requests

    def share_at(load: float) -> float:
        visits = simulate([each / load for each in moments], services)
        return sum(v.wait_s <= asked.wait for v in visits) / requests

    return bisect(share_at, asked.goal) / asked.service_s


def erlang_per_s(asked: Asked) -> float:
    """By A. K. Erlang's distribution of the wait in M/D/1 (1909).

    P(W <= t) = (1 - load) sum over k to floor(t / s) of
    (rate (k s - t))^k / k! x exp(-rate (k s - t)).
    """

    def share_at(load: float) -> float:
        terms = (load * (k - asked.wait) for k in range(int(asked.wait) + 1))
        return (1 - load) * sum(
            x**k / math.factorial(k) * math.exp(-x)
            for k, x in enumerate(terms)
        )

    return bisect(share_at, asked.goal) / asked.service_s


def virtual(asked: Asked, known_per_s: float, searches: int) -> Virtual:
    """The same search on a simulation, once with each seed."""
    found, requests = [], 0
    for seed in range(searches):
        probes = _virtual(asked, seed)
        found.append(Search(asked.goal, CONFIDENCE, probes))
        requests += sum(run.total for probe in probes for run in probe.runs)
    ends = [
        (each.low, each.high, each.estimate)
        for each in found
        if each.low and each.high and each.estimate
    ]
    widths = [high - low for low, high, _ in ends]
    return Virtual(
        searches=searches,
        enclosing=sum(low <= known_per_s <= high for low, high, _ in ends),
        within_reach=sum(
            abs(estimate / known_per_s - 1) <= REACH for *_, estimate in ends
        ),
        mean_width=sum(widths) / len(widths) / known_per_s,
        mean_requests=requests / searches,
    )


def _virtual(asked: Asked, seed: int) -> tuple[Probe, ...]:
    drawn = random.Random(seed)  # noqa: S311 - no secret
    services = [asked.service_s] * asked.requests

    def measure(rate_per_s: float) -> Iterator[Count]:
        for _ in range(asked.runs):
            moments = poisson_arrivals(rate_per_s, asked.requests, drawn)
            visits = simulate(moments, services)[asked.skipped :]
            longest = asked.wait * asked.service_s
            good = sum(visit.wait_s <= longest for visit in visits)
            yield Count(good, len(visits))

    return probes_of(asked, lambda rate: list(measure(rate)))


def run(even: Asked = EVEN, at_random: Asked = RANDOM) -> Report:
    """Everything."""
    started = results.timestamp(datetime.now(UTC))
    known = simulated_per_s(at_random)
    source = f"a simulation of {LONG:,} requests"
    return Report(
        started_utc=started,
        machine=machine.identify(),
        software=machine.software(),
        seed=SEED,
        erlang_per_s=erlang_per_s(at_random),
        simulated_requests=LONG,
        cases=(
            search(even, 1 / even.service_s, "1 / service time"),
            search(at_random, known, source),
        ),
        virtual=virtual(at_random, known, VIRTUAL_SEARCHES),
    )


def main() -> None:
    """Run, or show what was kept; status 1 when something does not hold."""
    report = keeping.run_or_show(__doc__, FILE, sweep_report, run)
    keeping.require(sweep_report, report)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(str(error))
