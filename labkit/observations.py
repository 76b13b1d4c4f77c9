"""One timed run, what the machine did meanwhile, and whether to quote it.

`sample` reads the machine's counters, `noise_of` judges a session from its
observations alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import psutil

from labkit import machine, stats

FEWEST_RUNS = 3
"""The median of two is their mean: one slow run moves it."""
SPREAD_LIMIT = 0.10
"""As far apart as the medians of runs that are published may lie."""
QUARTILE_RUNS = 5
"""From here on quartiles leave one outlier outside."""
DRIFT_LIMIT = 0.10
"""A drift leaves ratios of interleaved conditions alone, but the seconds
then belong to no one state of the machine. The same bound as for spread."""
DRIFT_RUNS = 4
"""Runs in each half; with fewer, one outlier could pass for a drift."""
CROWD_LIMIT = 0.25
"""Cores wanted beyond those there are; an editor and a system take less."""
LOAD_LIMIT = 0.5
"""The same for the load average, which also counts what waits briefly."""
STOLEN_LIMIT = 0.02
"""Well above what a quiet virtual machine loses, well below 10 %."""


@dataclass(frozen=True)
class Sample:
    """Counters of the machine at one moment; CPU seconds since some start.

    None where the system does not tell.
    """

    cores: int
    threads: int | None
    """Threads that PyTorch computes with; None while it is not loaded."""
    load_average: float | None
    """Processes that ran or waited for a core, over the last minute."""
    all_s: float
    """Of all cores, idle and stolen time included."""
    busy_s: float
    """Of all processes."""
    own_s: float
    """Of the processes that do what is measured."""
    stolen_s: float | None
    """What the host of a virtual machine gave to others."""


@dataclass(frozen=True)
class Observation:
    """One run of one condition. Repeats and positions count from 1.

    `position` is the place in the order of the session, `started_s` the
    time since its start. `elsewhere` is the number of cores that other
    programs kept busy meanwhile; it may be a little under 0, as the
    counters tick a hundred times a second. `stolen` is a part of the time
    of all cores. `value` is what the run returned, or its digest.
    """

    condition: str
    repeat: int
    position: int
    seconds: float
    started_s: float
    threads: int | None = None
    load_before: float | None = None
    load_after: float | None = None
    elsewhere: float | None = None
    stolen: float | None = None
    value: object = None


@dataclass(frozen=True)
class Noise:
    """Whether a session is too noisy for its medians to be quoted."""

    flagged: bool
    reasons: tuple[str, ...]


def sample(workers: Sequence[int] = ()) -> Sample:
    """The machine's counters now; takes a fraction of a millisecond.

    `workers` are the ids of processes, besides this one, that do what is
    measured (a server that is being timed); all others count as elsewhere.
    """
    times = psutil.cpu_times()
    busy = ("user", "nice", "system", "irq", "softirq")
    # Linux counts guests' time in `user` as well.
    all_s = sum(times) - getattr(times, "guest", 0.0)
    torch = sys.modules.get("torch")
    return Sample(
        cores=machine.usable_cores(),
        threads=torch.get_num_threads() if torch else None,
        load_average=psutil.getloadavg()[0],
        all_s=all_s - getattr(times, "guest_nice", 0.0),
        busy_s=sum(getattr(times, name, 0.0) for name in busy),
        own_s=sum(map(_cpu_seconds, (os.getpid(), *workers))),
        stolen_s=getattr(times, "steal", None),
    )


def elsewhere(before: Sample, after: Sample, seconds: float) -> float | None:
    """Cores that other programs kept busy between two samples."""
    if seconds <= 0:
        return None
    busy = after.busy_s - before.busy_s
    return round((busy - (after.own_s - before.own_s)) / seconds, 4)


def stolen(before: Sample, after: Sample) -> float | None:
    """Part of the time of all cores that the host gave to others."""
    passed = after.all_s - before.all_s
    if before.stolen_s is None or after.stolen_s is None or passed <= 0:
        return None
    return round((after.stolen_s - before.stolen_s) / passed, 4)


def noise_of(observations: Sequence[Observation], cores: int) -> Noise:
    """Whether the medians are fit to quote, and every reason against it.

    One outlier in a condition is no reason: it does not move a median.
    """
    reasons = (
        *_spread_reasons(observations),
        *_drift_reasons(observations),
        *_crowd_reasons(observations, cores),
    )
    return Noise(bool(reasons), reasons)


def seconds_by_condition(
    observations: Iterable[Observation],
) -> dict[str, list[float]]:
    """Seconds of each condition, in the order they were observed."""
    found: dict[str, list[float]] = {}
    for seen in observations:
        found.setdefault(seen.condition, []).append(seen.seconds)
    return found


def middle_spread(seconds: Sequence[float]) -> float | None:
    """Spread relative to the median, blind to one outlier.

    The interquartile range from five runs up; under that, the range
    without the run that is farthest from the median.
    """
    seen = stats.spread(seconds)
    if seen.count >= QUARTILE_RUNS or seen.count < FEWEST_RUNS:
        return seen.iqr_ratio
    by_distance = sorted(seconds, key=lambda value: abs(value - seen.median))
    rest = by_distance[:-1]
    return (max(rest) - min(rest)) / seen.median if seen.median else None


def drift(observations: Sequence[Observation]) -> float | None:
    """How much longer a run took in the second half of the session.

    The median over all pairs of a run in the second half and one of the
    same condition in the first (the shift estimate of J. L. Hodges and
    E. L. Lehmann, 1963, for ratios); an outlier spoils few of the pairs.
    None with fewer than `DRIFT_RUNS` such runs in a half.
    """
    ordered = sorted(observations, key=lambda seen: seen.position)
    half = len(ordered) // 2
    before = seconds_by_condition(ordered[:half])
    after = seconds_by_condition(ordered[len(ordered) - half :])
    both = [
        (before[condition], after[condition])
        for condition in before
        if condition in after
        and min(*before[condition], *after[condition]) > 0
    ]
    first = sum(len(early) for early, _ in both)
    second = sum(len(late) for _, late in both)
    if min(first, second) < DRIFT_RUNS:
        return None
    return stats.median(
        [b / a for early, late in both for a in early for b in late]
    )


def _spread_reasons(observations: Sequence[Observation]) -> Iterator[str]:
    for condition, seconds in seconds_by_condition(observations).items():
        if len(seconds) < FEWEST_RUNS:
            yield (
                f"{condition}: {len(seconds)} of at least {FEWEST_RUNS} runs"
                " that a median needs"
            )
            continue
        wide = middle_spread(seconds)
        if wide is not None and wide > SPREAD_LIMIT:
            yield (
                f"{condition}: its runs spread over {wide:.0%} of their"
                f" median, outliers aside (limit {SPREAD_LIMIT:.0%})"
            )


def _drift_reasons(observations: Sequence[Observation]) -> Iterator[str]:
    change = drift(observations)
    if change is not None and max(change, 1 / change) > 1 + DRIFT_LIMIT:
        word = "slower" if change > 1 else "faster"
        yield (
            f"the second half of the session was {abs(change - 1):.0%} {word}"
            f" than the first (limit {DRIFT_LIMIT:.0%})"
        )


def _crowd_reasons(
    observations: Sequence[Observation], cores: int
) -> Iterator[str]:
    """What other programs, and the host, took while this was measured."""
    loads = [
        seen.load_after for seen in observations if seen.load_after is not None
    ]
    if loads and stats.median(loads) > cores + LOAD_LIMIT:
        yield (
            f"load average {stats.median(loads):.1f} on {cores} cores: other"
            " programs wait for a core as well"
        )
    threads = max((seen.threads or 1 for seen in observations), default=1)
    others = _mean_over_time(
        (seen.elsewhere, seen.seconds) for seen in observations
    )
    if others is not None and threads + others > cores + CROWD_LIMIT:
        yield (
            f"other programs kept {others:.1f} of {cores} cores busy beside"
            f" the {threads} threads that were measured"
        )
    taken = _mean_over_time(
        (seen.stolen, seen.seconds) for seen in observations
    )
    if taken is not None and taken > STOLEN_LIMIT:
        yield (
            f"{taken:.0%} of the machine's time was taken by its host"
            f" (limit {STOLEN_LIMIT:.0%})"
        )


def _mean_over_time(
    pairs: Iterable[tuple[float | None, float]],
) -> float | None:
    """Mean of the known figures, each weighted by its seconds."""
    known = [(value, s) for value, s in pairs if value is not None]
    total = sum(s for _, s in known)
    return sum(value * s for value, s in known) / total if total else None


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process; 0 once it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
