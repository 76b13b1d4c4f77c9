"""What a run of `sweep.py` says: what must hold, and how it was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from labkit import documents, tables
from labkit.loadtest.sweep import Probe, Search
from labkit.machine import Machine

SCHEMA = "labkit.bench.sweep"
VERSION = 1
REACH = 0.05
"""How far the rate that is found may lie from the known one."""


@dataclass(frozen=True)
class Case:
    """One search on scripted servers whose highest rate is known.

    `known_per_s` is that rate, and `source` says from where it is known.
    A request is good if it waits `wait` service times at most. Each measured
    rate has `runs` of `requests`, of which the first `skipped` do not count.
    """

    name: str
    source: str
    known_per_s: float
    service_s: float
    wait: float
    goal: float
    tolerance: float
    confidence: float
    runs: int
    requests: int
    skipped: int
    seconds: float
    latest_ms: float
    """The most by which a request, or a step of a server, came late."""
    void: int
    """Measurements that were made again, since the machine stalled."""
    probes: tuple[Probe, ...]

    @property
    def search(self) -> Search:
        """The search that these probes make."""
        return Search(self.goal, self.confidence, self.probes)


@dataclass(frozen=True)
class Virtual:
    """The second case's search on a simulation, with many seeds."""

    searches: int
    enclosing: int
    """Of these the interval has the known rate in it."""
    within_reach: int
    """Of these the estimate lies within REACH of it."""
    mean_width: float
    """Of the interval / the known rate."""
    mean_requests: float
    """That counted."""


@dataclass(frozen=True)
class Report:
    """One run."""

    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    seed: int
    erlang_per_s: float
    """The second case's known rate by formula; its own is simulated."""
    simulated_requests: int
    cases: tuple[Case, ...]
    virtual: Virtual


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


def checks(report: Report) -> list[Check]:
    """Everything that must hold."""
    found = [check for case in report.cases for check in _of(case)]
    random = report.cases[-1]
    apart = report.erlang_per_s / random.known_per_s - 1
    return [
        *found,
        Check(
            "Erlang's formula gives the simulated rate within 1 %",
            abs(apart) <= 0.01,
            f"{report.erlang_per_s:.3f} and {random.known_per_s:.3f}"
            f" requests/s, {apart:+.2%}",
        ),
    ]


def _of(case: Case) -> Iterator[Check]:
    search, known = case.search, case.known_per_s
    estimate, low, high = search.estimate, search.low, search.high
    if estimate is None or low is None or high is None:
        yield Check(f"{case.name}: the search ended", False, "an end is open")
        return
    apart = estimate / known - 1
    yield Check(
        f"{case.name}: the known rate is found within {REACH:.0%}",
        abs(apart) <= REACH,
        f"{estimate:.3f} requests/s, known {known:.3f}, {apart:+.2%}",
    )
    yield Check(
        f"{case.name}: it lies between the two ends",
        low <= known <= high,
        f"{low:.3f} to {high:.3f} requests/s"
        f" ({low / known - 1:+.1%} to {high / known - 1:+.1%})",
    )


def context_lines(report: Report) -> Iterator[str]:
    """What was run, on what, and when."""
    here = report.machine
    versions = ", ".join(f"{k} {v}" for k, v in report.software.items())
    yield f"{here.cpu}, {here.cores} cores, {here.system}; {versions}"
    yield f"seed {report.seed}; {report.started_utc}"
    for case in report.cases:
        yield (
            f"{case.name}: service {1e3 * case.service_s:g} ms, one slot; good"
            f" is a wait of {case.wait:g} service times at most;"
            f" {case.goal:.0%} must be; each measurement is {case.runs} runs"
            f" of {case.requests} requests at once, the first {case.skipped}"
            f" of each not counted; known from {case.source};"
            f" {case.seconds:.0f} s; client and servers late by"
            f" {case.latest_ms:.1f} ms at most, {case.void} measurements void"
            " for more than two service times"
        )


def virtual_line(report: Report) -> str:
    """How often the second case's search is right, in virtual time."""
    seen = report.virtual
    return (
        f"the same search on a simulation, {seen.searches} seeds:"
        f" {seen.enclosing} enclose the known rate, {seen.within_reach} are"
        f" within {REACH:.0%} of it; mean width {seen.mean_width:.1%} of it,"
        f" {seen.mean_requests:,.0f} requests each"
    )


def check_lines(report: Report) -> Iterator[str]:
    """One line for each thing that must hold."""
    for check in checks(report):
        verdict = "holds" if check.holds else "FAILS"
        yield f"{verdict}: {check.name}: {check.detail}"


def rows(case: Case) -> list[list[str]]:
    """The probes of a search as a table."""
    head = ["requests/s", "of known", "runs", "good", "95 % interval", ""]
    found = [head]
    for probe in case.probes:
        seen = probe.interval(case.confidence)
        found.append(
            [
                f"{probe.rate_per_s:.3f}",
                f"{probe.rate_per_s / case.known_per_s:.3f}",
                str(len(probe.runs)),
                f"{probe.share:.1%}",
                f"{seen.low:.1%} to {seen.high:.1%}",
                probe.verdict(case.goal, case.confidence),
            ]
        )
    return found


def as_text(report: Report) -> str:
    """Everything that is printed at the end of a run."""
    lines = [*context_lines(report)]
    for case in report.cases:
        lines += ["", case.name, tables.as_text(rows(case))]
    return "\n".join([*lines, "", *check_lines(report), virtual_line(report)])


def as_markdown(report: Report) -> str:
    """The same for docs/goodput.md."""
    bullets: Callable[[str], str] = "- {}".format
    lines = [*map(bullets, context_lines(report))]
    for case in report.cases:
        head, *body = (f"| {' | '.join(cells)} |" for cells in rows(case))
        rule = "| ---: | ---: | ---: | ---: | ---: | --- |"
        lines += ["", f"**{case.name}**", "", head, rule, *body]
    lines += ["", *map(bullets, check_lines(report))]
    return "\n".join([*lines, bullets(virtual_line(report))])
