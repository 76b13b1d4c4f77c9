"""What a run of `queueing.py` says: a formula beside waits, and intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from labkit import documents, queueing, stats, tables
from labkit.machine import Machine
from labkit.stats import Interval

SCHEMA = "labkit.bench.queueing"
VERSION = 1
MOST_OUTSIDE = 1
"""Of six intervals of 95 % more than one misses in 3 % of all runs."""
MOST_SIGMAS = 4.0
"""How far a measured rate may lie from the asked one."""
TOO_SELDOM = 0.5
"""A 95 % interval that covers less often than this is of no use."""
HONEST = 0.9
"""Few runs with long tails cost a 95 % interval a few of its hundredths."""


@dataclass(frozen=True)
class Protocol:
    """What was asked for, the same in every part."""

    mean_s: float
    """Of the service times."""
    rate_per_s: float
    """Of a Poisson process."""
    requests: int
    """In a replication, the first `warmup` of them left out."""
    warmup: int
    replications: int
    together: int
    """Servers at a time."""
    services: Mapping[str, float]
    """Coefficient of variation by name."""
    seeds: tuple[int, ...]
    simulated_sets: int
    """Of as many runs each as there are replications."""


@dataclass(frozen=True)
class Replication:
    """One run on a server of its own, of the requests after warm-up."""

    wait_s: float
    """Mean; the server's own start minus read."""
    naive_low_s: float
    naive_high_s: float
    """Interval of the mean as if the requests were independent."""
    rate_per_s: float
    """Measured: of the moments at which requests were read."""
    service_mean_s: float
    service_variance_s2: float


@dataclass(frozen=True)
class Watched:
    """What a client saw of a replication, and what went wrong."""

    wait_s: float
    """Mean; last token minus sent, minus the server's service time."""
    ideal_wait_s: float
    """Mean; simulated, had each request been read when it was due."""
    late_s: float
    """From due to read by the server: 99th percentile."""
    failed: int


@dataclass(frozen=True)
class Cell:
    """The replications of one service-time distribution and one seed."""

    service: str
    seed: int
    started_utc: str
    seconds: float
    replications: tuple[Replication, ...]
    watched: tuple[Watched, ...]


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the formula's value, in simulated runs."""

    service: str
    runs: int
    naive: int
    """Runs whose naive interval held it."""
    sets: int
    inside: int
    """Sets of runs whose Student interval held it."""


@dataclass(frozen=True)
class Report:
    """One run; finished when it has all its parts."""

    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    protocol: Protocol
    cells: tuple[Cell, ...] = ()
    simulated: tuple[Coverage, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The formula's value and the interval that must hold it."""

    predicted_s: float
    """At the asked rate; the one that is judged."""
    at_measured_rate_s: float
    interval: Interval

    @property
    def inside(self) -> bool:
        """Whether it does."""
        return self.interval.low <= self.predicted_s <= self.interval.high


@dataclass(frozen=True)
class Check:
    """Something that must hold, and the numbers that say whether it does."""

    name: str
    holds: bool
    detail: str


def to_text(report: Report) -> str:
    """The document of a report, strict JSON."""
    document = {"schema": SCHEMA, "version": VERSION, **asdict(report)}
    return documents.to_text(document)


def from_json(document: Mapping[str, object]) -> Report:
    """The report in a document; LabError that says what is wrong with it."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    return documents.decode(Report, rest)


# What follows from the replications -----------------------------------------


def service_moments(
    replications: Sequence[Replication],
) -> tuple[float, float]:
    """Mean and variance over all requests of replications of one size."""
    means = [one.service_mean_s for one in replications]
    within = statistics.fmean(one.service_variance_s2 for one in replications)
    return statistics.fmean(means), within + statistics.pvariance(means)


def judge(replications: Sequence[Replication], rate_per_s: float) -> Verdict:
    """Student's interval of their mean waits, beside Pollaczek-Khinchine.

    Mean and variance of the service time are the measured ones.
    """
    mean_s, variance_s2 = service_moments(replications)
    measured = statistics.fmean(one.rate_per_s for one in replications)
    interval = stats.mean_interval([one.wait_s for one in replications])
    predicted_s, at_measured_rate_s = (
        queueing.mg1_wait_s(rate, mean_s, variance_s2)
        for rate in (rate_per_s, measured)
    )
    assert interval is not None
    # A rate that was measured may have come to capacity by chance.
    return Verdict(
        math.inf if predicted_s is None else predicted_s,
        math.inf if at_measured_rate_s is None else at_measured_rate_s,
        interval,
    )


def naive_hits(replications: Sequence[Replication], value_s: float) -> int:
    """How many of the naive intervals hold a value."""
    return sum(
        one.naive_low_s <= value_s <= one.naive_high_s for one in replications
    )


def sigmas(cell: Cell, protocol: Protocol) -> float:
    """Measured minus asked rate, in standard errors of the measured one."""
    gaps = len(cell.replications) * (protocol.requests - protocol.warmup)
    measured = statistics.fmean(one.rate_per_s for one in cell.replications)
    return (measured / protocol.rate_per_s - 1) * math.sqrt(gaps)


def late_wait_s(cell: Cell) -> float:
    """By how much the mean wait is longer than had all been read when due.

    Exact, and no chance is in it: the same arrivals and services, simulated.
    """
    waits_s = statistics.fmean(one.wait_s for one in cell.replications)
    return waits_s - statistics.fmean(o.ideal_wait_s for o in cell.watched)


# What must hold -------------------------------------------------------------


def checks(report: Report) -> list[Check]:
    """Everything that must hold of a finished run."""
    return [
        _inside(report),
        _answered(report),
        _asked_rate(report),
        _naive(report),
        _honest(report),
    ]


def _inside(report: Report) -> Check:
    cells, rate = report.cells, report.protocol.rate_per_s
    missed = [c for c in cells if not judge(c.replications, rate).inside]
    return Check(
        "the formula's value lies in the 95 % interval of"
        f" {report.protocol.replications} replications",
        len(missed) <= MOST_OUTSIDE,
        f"in {len(cells) - len(missed)} of {len(cells)}; chance misses one"
        f" in twenty, and {MOST_OUTSIDE} may miss"
        + "".join(
            f"; it missed with {cell.service} services, seed {cell.seed},"
            f" where lateness added {late_wait_s(cell) * 1e3:.2f} ms"
            for cell in missed
        ),
    )


def _answered(report: Report) -> Check:
    failed = sum(one.failed for cell in report.cells for one in cell.watched)
    runs = sum(len(cell.watched) for cell in report.cells)
    return Check(
        "every request was answered",
        failed == 0,
        f"{runs * report.protocol.requests} requests, {failed} failed",
    )


def _asked_rate(report: Report) -> Check:
    found = [sigmas(cell, report.protocol) for cell in report.cells]
    worst = max(found, key=abs)
    return Check(
        "requests came at the asked rate",
        abs(worst) <= MOST_SIGMAS,
        f"the measured rate is at most {abs(worst):.1f} standard errors off"
        f" (allowed: {MOST_SIGMAS:g})",
    )


def _naive(report: Report) -> Check:
    shares = [
        stats.share_interval(one.naive, one.runs) for one in report.simulated
    ]
    return Check(
        "an interval from one run's requests covers far too seldom",
        all(share.high < TOO_SELDOM for share in shares),
        "; ".join(
            f"{one.service} {_share(one.naive, one.runs)} of simulated runs"
            for one in report.simulated
        ),
    )


def _honest(report: Report) -> Check:
    shares = [one.inside / one.sets for one in report.simulated]
    return Check(
        "an interval from replications covers about as often as it says",
        all(share >= HONEST for share in shares),
        "; ".join(
            f"{one.service} {_share(one.inside, one.sets)} of simulated sets"
            for one in report.simulated
        ),
    )


def _share(hits: int, total: int) -> str:
    """`12.3 % (11.0-13.7 %)`: the share and its 95 % interval."""
    interval = stats.share_interval(hits, total)
    low, high = 100 * interval.low, 100 * interval.high
    return f"{100 * hits / total:.1f} % ({low:.1f}-{high:.1f} %)"


# What is printed ------------------------------------------------------------


def context_lines(report: Report) -> Iterator[str]:
    """What was run, on what, and when."""
    here, asked = report.machine, report.protocol
    versions = ", ".join(f"{k} {v}" for k, v in report.software.items())
    seconds = sum(cell.seconds for cell in report.cells)
    late_s = [one.late_s for cell in report.cells for one in cell.watched]
    yield f"{here.cpu}, {here.cores} cores, {here.system}; {versions}"
    yield (
        f"services of {asked.mean_s * 1e3:g} ms on average,"
        f" {asked.rate_per_s:g} requests/s asked for; {asked.requests}"
        f" requests a replication, the first {asked.warmup} left out;"
        f" {asked.replications} replications, {asked.together} servers at a"
        f" time; {seconds:.0f} s in all; {report.started_utc}"
    )
    yield (
        "how late after it was due a request was read by the server, p99 of"
        f" a replication: {statistics.median(late_s) * 1e3:.1f} ms in the"
        f" median, {max(late_s) * 1e3:.1f} ms in the worst"
    )


def check_lines(report: Report) -> Iterator[str]:
    """One line for each thing that must hold."""
    for check in checks(report):
        verdict = "holds" if check.holds else "FAILS"
        yield f"{verdict}: {check.name}: {check.detail}"


def rows(report: Report) -> list[list[str]]:
    """The cells as a table; waits in ms."""
    head = [
        "services",
        "seed",
        "mean service ms",
        "variation",
        "formula ms",
        "95 % interval ms",
        "in it",
        "mean ms",
        "of it by lateness ms",
        "clients saw ms",
        "formula at measured rate ms",
        "naive intervals that hold it",
    ]
    return [head] + [_row(cell, report.protocol) for cell in report.cells]


def _row(cell: Cell, protocol: Protocol) -> list[str]:
    found = judge(cell.replications, protocol.rate_per_s)
    mean_s, variance_s2 = service_moments(cell.replications)
    waits_s = [one.wait_s for one in cell.replications]
    seen_s = [one.wait_s for one in cell.watched]
    hits = naive_hits(cell.replications, found.predicted_s)
    low, high = found.interval.low, found.interval.high
    return [
        cell.service,
        str(cell.seed),
        f"{mean_s * 1e3:.3f}",
        f"{math.sqrt(variance_s2) / mean_s:.3f}",
        f"{found.predicted_s * 1e3:.2f}",
        f"{low * 1e3:.2f}-{high * 1e3:.2f}",
        "yes" if found.inside else "no",
        f"{statistics.fmean(waits_s) * 1e3:.2f}",
        f"{late_wait_s(cell) * 1e3:+.2f}",
        f"{statistics.fmean(seen_s) * 1e3:.2f}",
        f"{found.at_measured_rate_s * 1e3:.2f}",
        f"{hits} of {len(cell.replications)}",
    ]


def coverage_rows(report: Report) -> list[list[str]]:
    """How often intervals held the formula's value, as a table."""
    head = ["services", "runs", "naive", "sets of runs", "Student"]
    real = [
        ["on servers, " + name, *_real(report, name)]
        for name in report.protocol.services
    ]
    return [head, *real] + [
        [
            f"simulated, {one.service}",
            str(one.runs),
            _share(one.naive, one.runs),
            str(one.sets),
            _share(one.inside, one.sets),
        ]
        for one in report.simulated
    ]


def _real(report: Report, service: str) -> list[str]:
    cells = [cell for cell in report.cells if cell.service == service]
    rate = report.protocol.rate_per_s
    verdicts = [judge(cell.replications, rate) for cell in cells]
    naive = sum(
        naive_hits(cell.replications, verdict.predicted_s)
        for cell, verdict in zip(cells, verdicts, strict=True)
    )
    runs = sum(len(cell.replications) for cell in cells)
    inside = sum(verdict.inside for verdict in verdicts)
    return [
        str(runs),
        _share(naive, runs),
        str(len(cells)),
        f"{inside} of {len(cells)}",
    ]


def as_text(report: Report) -> str:
    """Everything that is printed at the end of a run."""
    lines = [*context_lines(report), "", tables.as_text(rows(report)), ""]
    lines += [tables.as_text(coverage_rows(report)), ""]
    return "\n".join([*lines, *check_lines(report)])


def as_markdown(report: Report) -> str:
    """The same for docs/queueing.md."""
    bullets: Callable[[str], str] = "- {}".format
    return "\n".join(
        [
            *map(bullets, context_lines(report)),
            "",
            *_table(rows(report)),
            "",
            *_table(coverage_rows(report)),
            "",
            *map(bullets, check_lines(report)),
        ]
    )


def _table(found: list[list[str]]) -> list[str]:
    head, *body = (f"| {' | '.join(cells)} |" for cells in found)
    marks = ["---"] + ["---:"] * (len(found[0]) - 1)
    return [head, f"| {' | '.join(marks)} |", *body]
