"""Goodput over the offered rate, and the highest rate that meets a goal.

The search asks a function for counts of independent runs at a rate. Whether
that function drives a server or a simulation is not known here, so that it
can be tried where the answer is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from labkit import stats
from labkit.errors import LabError
from labkit.loadtest import rates
from labkit.loadtest.rates import Goodput, Objectives
from labkit.loadtest.records import Record
from labkit.stats import Interval

Verdict = Literal["meets", "misses", "undecided"]

# Goodput over the rate ------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """What became of the requests at one offered rate."""

    rate_per_s: float
    goodput: Goodput
    throughput_per_s: float | None
    """Requests that succeeded, in time or late."""


def sweep(
    run: Callable[[float], Sequence[Record]],
    offered_per_s: Iterable[float],
    together: int = 1,
) -> dict[float, list[Record]]:
    """The records of a run at each offered rate.

    So many runs as `together` says go on at once: each needs a server of
    its own, whose times others do not change.
    """
    asked = list(offered_per_s)
    with ThreadPoolExecutor(together) as pool:
        return dict(zip(asked, map(list, pool.map(run, asked)), strict=True))


def levels(
    runs: Mapping[float, Sequence[Record]], objectives: Objectives
) -> list[Level]:
    """Goodput and throughput of each run, by rising rate."""
    return [
        Level(
            rate,
            rates.goodput(runs[rate], objectives),
            rates.request_throughput(runs[rate]),
        )
        for rate in sorted(runs)
    ]


def best(found: Iterable[Level]) -> Level | None:
    """The level of the highest goodput; None where none is defined."""
    known = [level for level in found if level.goodput.per_s is not None]
    return max(known, key=lambda lvl: lvl.goodput.per_s or 0.0, default=None)


# The highest rate -----------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """One independent run: requests that met every objective, of all."""

    met: int
    total: int


Measure = Callable[[float], Sequence[Count]]
"""Runs at a rate in requests/s, independent of all others (new seeds)."""


@dataclass(frozen=True)
class Probe:
    """All runs at one rate; two at least, each with a request.

    The requests of one run are not independent of each other: who comes
    after a long wait waits long too. Runs are, so the interval is made of
    one share for each run.
    """

    rate_per_s: float
    runs: tuple[Count, ...]

    def __post_init__(self) -> None:
        if len(self.runs) < 2 or any(run.total < 1 for run in self.runs):
            raise LabError(
                f"At {self.rate_per_s:g} requests/s there are"
                f" {len(self.runs)} runs: measure two or more, with a"
                " request in each, to know how far they differ."
            )

    @property
    def share(self) -> float:
        """Requests that met every objective / all, of all runs."""
        return sum(r.met for r in self.runs) / sum(r.total for r in self.runs)

    def interval(self, confidence: float) -> Interval:
        """Of the share, by Student's t over the runs' shares, cut to 0..1."""
        shares = [run.met / run.total for run in self.runs]
        found = stats.mean_interval(shares, confidence)
        assert found is not None  # there are two runs
        low, high = max(0.0, found.low), min(1.0, found.high)
        return Interval(low, high, confidence)

    def verdict(self, goal: float, confidence: float) -> Verdict:
        """Whether the whole interval lies on one side of the goal."""
        found = self.interval(confidence)
        if found.low >= goal:
            return "meets"
        return "misses" if found.high < goal else "undecided"


@dataclass(frozen=True)
class Search:
    """Probes of several rates, by rising rate, and where they leave the
    highest rate whose share is `goal` or more.

    It takes for granted that a higher rate never has a higher share.
    """

    goal: float
    confidence: float
    probes: tuple[Probe, ...] = ()

    def _rates(self, verdict: Verdict) -> list[float]:
        return [
            probe.rate_per_s
            for probe in self.probes
            if probe.verdict(self.goal, self.confidence) == verdict
        ]

    @property
    def high(self) -> float | None:
        """The lowest rate that clearly misses the goal."""
        return min(self._rates("misses"), default=None)

    @property
    def low(self) -> float | None:
        """The highest rate that clearly meets it, below all that miss."""
        above = self.high
        meets = self._rates("meets")
        return max(
            (r for r in meets if above is None or r < above), default=None
        )

    @property
    def undecided(self) -> tuple[float, ...]:
        """Rates between the two that do neither."""
        low, high = self.low, self.high
        return tuple(
            rate
            for rate in self._rates("undecided")
            if (low is None or rate > low) and (high is None or rate < high)
        )

    @property
    def estimate(self) -> float | None:
        """Where the line through the shares first falls below the goal.

        Between `low` and `high` as far as they are known; None where it
        does not.
        """
        low, high = self.low or 0.0, self.high or math.inf
        inner = [p for p in self.probes if low <= p.rate_per_s <= high]
        for before, after in pairwise(inner):
            if before.share >= self.goal > after.share:
                fallen = before.share - self.goal
                part = fallen / (before.share - after.share)
                gap = after.rate_per_s - before.rate_per_s
                return before.rate_per_s + part * gap
        return None

    def with_probe(self, probe: Probe) -> Search:
        """The same with one more, or with one of its rate replaced."""
        rest = [p for p in self.probes if p.rate_per_s != probe.rate_per_s]
        ordered = sorted([*rest, probe], key=lambda each: each.rate_per_s)
        return Search(self.goal, self.confidence, tuple(ordered))

    def next_rate(self, tolerance: float) -> float | None:
        """The middle of the widest gap around the border.

        Without undecided rates that is the middle between the ends: plain
        bisection. With them, both sides of these are narrowed. None when
        every gap is at most `tolerance` of its upper end.
        """
        low, high = self.low, self.high
        if low is None or high is None:
            return None
        inner = self.undecided or (low,)
        gaps = [(low, inner[0]), (inner[-1], high)]
        below, above = max(gaps, key=lambda gap: gap[1] - gap[0])
        if above - below <= tolerance * above:
            return None
        return (below + above) / 2


def highest_rate(  # noqa: PLR0913 - a search has that many terms
    measure: Measure,
    low_per_s: float,
    high_per_s: float,
    *,
    goal: float,
    known: Iterable[Probe] = (),
    tolerance: float = 0.05,
    most_repeats: int = 3,
    most_probes: int = 40,
    confidence: float = 0.95,
) -> Search:
    """Bisect between a rate that meets the goal and one that misses it.

    The ends are measured first, unless `known` probes have such a rate. Near
    the border one measurement does not decide: a rate is measured again, up
    to `most_repeats` times, until its interval lies on one side. If it never
    does, it stays undecided, and the search narrows what lies below and
    above it. The result's `low` and `high` enclose the highest rate; one is
    None where an end was not clearly on its side. It ends when no gap is
    wider than `tolerance` of its upper end, or with `most_probes`.

    Each verdict is one of `confidence`, and looking again after each repeat
    makes it less sure than that. A wrong one is likely only where the share
    is next to the goal, and moves an end by little.
    """
    _require(low_per_s, high_per_s, goal, tolerance)

    def probed(rate: float) -> Probe:
        runs: tuple[Count, ...] = ()
        for _ in range(max(1, most_repeats)):
            runs += tuple(measure(rate))
            probe = Probe(rate, runs)
            if probe.verdict(goal, confidence) != "undecided":
                break
        return probe

    search = Search(goal, confidence)
    for probe in known:
        search = search.with_probe(probe)
    if search.low is None:
        search = search.with_probe(probed(low_per_s))
    if search.high is None:
        search = search.with_probe(probed(high_per_s))
    while len(search.probes) < most_probes:
        rate = search.next_rate(tolerance)
        if rate is None:
            break
        search = search.with_probe(probed(rate))
    return search


def _require(low: float, high: float, goal: float, tolerance: float) -> None:
    if not 0 < low < high:
        raise LabError(
            f"There is nothing between {low:g} and {high:g} requests/s: give"
            " two rates above 0, the lower one first."
        )
    if not (0 < goal <= 1 and 0 < tolerance < 1):
        raise LabError(
            f"A goal of {goal:g} and a tolerance of {tolerance:g} are no"
            " shares: give numbers between 0 and 1."
        )
