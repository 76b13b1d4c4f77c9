"""What the observations of `loadgen.py` say: precision, and whether it does.

Everything is computed from a `Report`, which holds the raw observations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labkit import documents, tables
from labkit.loadtest import metrics
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Record
from labkit.machine import Machine
from labkit.observations import Observation, noise_of
from labkit.results import Protocol

SCHEMA = "labkit.bench.loadgen"
VERSION = 1

NEW, REUSED = "new connections", "reused connections"
AT_ONCE = "new connections, released at once"
ARRIVAL_P95_MS, TPOT_MS = 2.0, 0.5
"""The bars, for starts that are staggered."""

ARRIVAL = "arrival minus write"
LATENESS = "the server's write minus plan"
TPOT = "TPOT minus truth"
TTFT = "TTFT minus (write - accepted)"
TTFT_CONNECTED = "TTFT after connect minus (write - request read)"


@dataclass(frozen=True)
class Report:
    """One run. The value of an observation is a `Wave` as a document."""

    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    protocol: Protocol
    streams: int
    gap_ms: float
    tokens: int
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class Wave:
    """Errors of all streams of one wave, in whole microseconds.

    Those of events are counted, [error, how often], for there are thousands;
    the others are one for each stream.
    """

    arrival_us: list[list[int]]
    lateness_us: list[list[int]]
    tpot_us: list[int]
    ttft_us: list[int]
    ttft_connected_us: list[int]
    failed: int


def compare(records: Sequence[Record], played: Mapping[str, Played]) -> Wave:
    """What the client said beside what the server did, by request."""
    arrival: Counter[int] = Counter()
    lateness: Counter[int] = Counter()
    tpot, ttft, connected = [], [], []
    fine = [record for record in records if record.ok]
    for record in fine:
        truth = played[record.request]
        writes = [write for write in truth.writes if write.tokens]
        seen = [a.time_ns for a in record.arrivals if a.kind == "token"]
        pairs = list(zip(seen, writes, strict=True))
        arrival.update(_us(ns - write.write_ns) for ns, write in pairs)
        lateness.update(_us(w.write_ns - w.due_ns) for w in writes)
        first, last = writes[0].write_ns, writes[-1].write_ns
        spans = seen[-1] - seen[0], last - first
        tpot.append(_us((spans[0] - spans[1]) / (len(seen) - 1)))
        base = record.connected_ns or record.sent_ns
        connected.append(_us(seen[0] - base - (first - truth.read_ns)))
        if record.connected_ns is not None:
            sent = seen[0] - record.sent_ns
            ttft.append(_us(sent - (first - truth.accepted_ns)))
    return Wave(
        _counted(arrival),
        _counted(lateness),
        tpot,
        ttft,
        connected,
        len(records) - len(fine),
    )


def _us(nanoseconds: float) -> int:
    return round(nanoseconds / 1000)


def _counted(counts: Counter[int]) -> list[list[int]]:
    return [[error, count] for error, count in sorted(counts.items())]


def to_text(report: Report) -> str:
    """The document of a report, strict JSON."""
    return documents.to_text(
        {"schema": SCHEMA, "version": VERSION, **asdict(report)}
    )


def from_json(document: Mapping[str, Any]) -> Report:
    """The report in a document; LabError that says what is wrong with it."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    return documents.decode(Report, rest)


def errors_ms(report: Report, condition: str) -> dict[str, list[float]]:
    """All errors of a condition, its rounds together, by what is in error."""
    found: dict[str, list[float]] = {
        name: [] for name in (ARRIVAL, LATENESS, TPOT, TTFT, TTFT_CONNECTED)
    }
    for seen in report.observations:
        value = seen.value
        if seen.condition != condition or not isinstance(value, Mapping):
            continue
        wave = Wave(**value)
        for name, counted in (
            (ARRIVAL, wave.arrival_us),
            (LATENESS, wave.lateness_us),
        ):
            for error, count in counted:
                found[name] += [error / 1000] * count
        found[TPOT] += [error / 1000 for error in wave.tpot_us]
        found[TTFT] += [error / 1000 for error in wave.ttft_us]
        found[TTFT_CONNECTED] += [e / 1000 for e in wave.ttft_connected_us]
    return found


def rows(report: Report) -> list[list[str]]:
    """A table in milliseconds. TPOT's errors are taken without their sign."""
    made = [["condition", "error of", "n", "p50", "p95", "p99", "max"]]
    for condition in report.protocol.conditions:
        for name, errors in errors_ms(report, condition).items():
            sized = [abs(e) for e in errors] if name == TPOT else errors
            if not sized:
                continue
            found = metrics.summary(sized)
            cells = (found.p50, found.p95, found.p99, found.maximum)
            count = f"{found.count:,}"
            made.append([condition, name, count, *map(_shown, cells)])
    return made


def goals(report: Report) -> list[str]:
    """A line for each bar: reached or missed, by the staggered waves."""
    lines = []
    for condition in (NEW, REUSED):
        errors = errors_ms(report, condition)
        p95 = metrics.percentile(errors[ARRIVAL], 95)
        worst = max(map(abs, errors[TPOT]), default=None)
        for name, value, bar in (
            (f"{ARRIVAL}, p95", p95, ARRIVAL_P95_MS),
            ("TPOT error, maximum", worst, TPOT_MS),
        ):
            reached = value is not None and value < bar
            verdict = "reached" if reached else "missed"
            lines.append(
                f"{verdict}: {condition}, {name} {_shown(value)} ms, wanted"
                f" under {bar} ms"
            )
    return lines


def failed(report: Report) -> int:
    """Requests that failed, of all waves."""
    values = [seen.value for seen in report.observations]
    return sum(v["failed"] for v in values if isinstance(v, Mapping))


def context_lines(report: Report) -> list[str]:
    """What was measured, where, and how noisy it was."""
    here, how = report.machine, report.protocol
    noise = noise_of(report.observations, here.cores)
    return [
        f"{here.cpu}, {here.cores} cores; {report.started_utc}",
        f"{report.streams} concurrent streams of {report.tokens} tokens,"
        f" {report.gap_ms:g} ms apart; {how.repeats} rounds; client and"
        " scripted server in one process each; ms",
        f"{failed(report)} requests failed",
        *(f"noisy: {reason}" for reason in noise.reasons),
    ]


def as_text(report: Report) -> str:
    """Everything that is printed at the end of a run."""
    table = tables.as_text(rows(report))
    return "\n".join([*context_lines(report), "", table, "", *goals(report)])


def as_markdown(report: Report) -> str:
    """The same for a page."""
    head, *body = rows(report)
    lines = ["| " + " | ".join(row) + " |" for row in (head, *body)]
    lines.insert(1, "|" + " --- |" * len(head))
    listed = [f"- {line}" for line in [*context_lines(report), *goals(report)]]
    return "\n".join([*lines, "", *listed])


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
