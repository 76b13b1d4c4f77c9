"""What a run of `soak.py` says: what must hold, and how it was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from labkit import documents, tables
from labkit.machine import Machine

SCHEMA = "labkit.bench.soak"
VERSION = 1
MIB = 2**20
WARM_REQUESTS = 500
"""From here on nothing may grow."""
MOST_GROWTH_BYTES = 4 * MIB
"""Noise of an allocator; 1,500 leaked answers would be more."""


@dataclass(frozen=True)
class Sample:
    """The server after some requests, with no request in it."""

    requests: int
    rss_bytes: int
    threads: int
    files: int
    """Open file descriptors; handles on Windows."""


@dataclass(frozen=True)
class Seen:
    """What the clients saw, in numbers of requests.

    `full` counts answers that the queue was full, after which each request
    was sent again.
    """

    behaviours: Mapping[str, int]
    answered: int
    refused: int
    left: int
    full: int
    wrong: tuple[str, ...]
    """A sentence for each that was answered wrongly, or not."""


@dataclass(frozen=True)
class Counted:
    """What an observer of the engine counted, and /metrics after it.

    `ended` is by the reason of a good end or the code of a failure; `faults`
    are events before the first or after the last of a request.
    """

    queued: int
    ended: Mapping[str, int]
    faults: tuple[str, ...]
    running: int
    waiting: int
    success: Mapping[str, int]
    failure: Mapping[str, int]
    refused: Mapping[str, int]


@dataclass(frozen=True)
class Report:
    """One run."""

    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    requests: int
    clients: int
    max_waiting: int
    seed: int
    seconds: float
    seen: Seen
    counted: Counted
    served_after: bool
    """Whether one more request was answered at the end."""
    samples: tuple[Sample, ...]


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


MEMORY = "memory does not grow"
GOOD_ENDS = ("length", "stop")


def checks(report: Report) -> list[Check]:
    """Everything that must hold."""
    return [
        _once(report.counted),
        _free(report),
        _right(report.seen),
        _same_ends(report),
        _same_metrics(report),
        *_no_growth(report.samples),
    ]


def _once(counted: Counted) -> Check:
    ended = sum(counted.ended.values())
    return Check(
        "every accepted request ended in exactly one terminal event",
        counted.queued == ended and not counted.faults,
        f"{counted.queued} accepted, {ended} ended"
        f" ({_listed(counted.ended)}), {len(counted.faults)} stray events",
    )


def _free(report: Report) -> Check:
    counted = report.counted
    answered = "answered" if report.served_after else "not answered"
    return Check(
        "no slot is stuck",
        counted.running == counted.waiting == 0 and report.served_after,
        f"{counted.running} running and {counted.waiting} waiting at the"
        f" end, one more request {answered}",
    )


def _right(seen: Seen) -> Check:
    return Check(
        "every client got what it asked for",
        not seen.wrong and seen.answered + seen.refused > 0,
        f"{seen.answered} whole answers, {seen.refused} malformed requests"
        f" refused, {seen.left} left, {len(seen.wrong)} wrong"
        + "".join(f"; {sentence}" for sentence in seen.wrong[:3]),
    )


def _same_ends(report: Report) -> Check:
    """Who left may have been answered, cancelled, or never accepted."""
    ended, seen = report.counted.ended, report.seen
    good = sum(ended.get(reason, 0) for reason in GOOD_ENDS)
    cancelled = ended.get("cancelled", 0)
    others = sum(ended.values()) - good - cancelled
    unread = good - seen.answered
    return Check(
        "clients and engine agree on how requests ended",
        others == 0 and unread >= 0 and unread + cancelled <= seen.left,
        f"{good} good ends for {seen.answered} whole answers; of the"
        f" {seen.left} that left, {cancelled} were cancelled, {unread} ended"
        f" unread and {seen.left - unread - cancelled} were not accepted;"
        f" {others} other ends",
    )


def _same_metrics(report: Report) -> Check:
    counted, seen = report.counted, report.seen
    shown = {**counted.success, **counted.failure}
    full = counted.refused.get("queue_full", 0)
    return Check(
        "/metrics agrees",
        shown == counted.ended and 0 <= full - seen.full <= seen.left,
        f"the same ends; {full} full queues counted, {seen.full} told to"
        " clients that stayed",
    )


def _no_growth(samples: tuple[Sample, ...]) -> Iterator[Check]:
    warm = next((s for s in samples if s.requests >= WARM_REQUESTS), None)
    warm = warm or samples[0]
    last = samples[-1]
    yield _steady("threads", warm.threads, last.threads, warm)
    yield _steady("open files", warm.files, last.files, warm)
    grown = last.rss_bytes - warm.rss_bytes
    yield Check(
        MEMORY,
        grown <= MOST_GROWTH_BYTES,
        f"{warm.rss_bytes / MIB:.1f} MiB after {warm.requests} requests,"
        f" {last.rss_bytes / MIB:.1f} after {last.requests}; slope"
        f" {slope(samples) / 1024:+.2f} KiB a request"
        f" (allowed: {MOST_GROWTH_BYTES / MIB:.0f} MiB in all)",
    )


def _steady(what: str, warm: int, last: int, sample: Sample) -> Check:
    return Check(
        f"{what} do not grow",
        last <= warm,
        f"{warm} after {sample.requests} requests, {last} at the end",
    )


def slope(samples: tuple[Sample, ...]) -> float:
    """Bytes a request by least squares, from WARM_REQUESTS on."""
    import statistics

    kept = [s for s in samples if s.requests >= WARM_REQUESTS]
    if len(kept) < 2:
        return 0.0
    return statistics.linear_regression(
        [s.requests for s in kept], [s.rss_bytes for s in kept]
    ).slope


def context_lines(report: Report) -> Iterator[str]:
    """What was run, on what, and when."""
    here = report.machine
    versions = ", ".join(f"{k} {v}" for k, v in report.software.items())
    yield f"{here.cpu}, {here.cores} cores, {here.system}; {versions}"
    yield (
        f"{report.requests} requests of {report.clients} clients at once, at"
        f" most {report.max_waiting} waiting, in {report.seconds:.0f} s;"
        f" seed {report.seed}; {report.started_utc}"
    )
    yield f"behaviour: {_listed(report.seen.behaviours)}"


def check_lines(report: Report) -> Iterator[str]:
    """One line for each thing that must hold."""
    for check in checks(report):
        verdict = "holds" if check.holds else "FAILS"
        yield f"{verdict}: {check.name}: {check.detail}"


def rows(report: Report) -> list[list[str]]:
    """The samples as a table."""
    head = ["requests so far", "resident MiB", "threads", "open files"]
    return [head] + [
        [
            str(sample.requests),
            f"{sample.rss_bytes / MIB:.1f}",
            str(sample.threads),
            str(sample.files),
        ]
        for sample in report.samples
    ]


def as_text(report: Report) -> str:
    """Everything that is printed at the end of a run."""
    lines = [*context_lines(report), "", tables.as_text(rows(report)), ""]
    return "\n".join([*lines, *check_lines(report)])


def as_markdown(report: Report) -> str:
    """The same for docs/server.md."""
    bullets: Callable[[str], str] = "- {}".format
    head, *body = (f"| {' | '.join(cells)} |" for cells in rows(report))
    return "\n".join(
        [
            *map(bullets, context_lines(report)),
            "",
            head,
            "| ---: | ---: | ---: | ---: |",
            *body,
            "",
            *map(bullets, check_lines(report)),
        ]
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
