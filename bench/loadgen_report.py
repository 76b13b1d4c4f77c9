"""What the observations of `loadgen.py` say: precision, and whether it does.

Everything is computed from a `Report`, which holds the raw observations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tool_report

from labkit import documents, tables
from labkit.loadtest import metrics
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Record
from labkit.machine import Machine
from labkit.observations import Observation, noise_of
from labkit.results import Protocol

SCHEMA = "labkit.bench.loadgen"
VERSION = 2

NEW, REUSED = "new connections", "reused connections"
AT_ONCE = "new connections, released at once"
ARRIVAL_P95_MS, TPOT_MS = 2.0, 0.5
"""The bars, for starts that are staggered."""
TTFT_P99_MS = 7.0
"""The bar for starts at once: the best of five public tools that were
tried before."""

ARRIVAL = "arrival minus write"
LATENESS = "the server's write minus plan"
TPOT = "TPOT minus truth"
TTFT = "TTFT minus (write - accepted)"
TTFT_CONNECTED = "TTFT after connect minus (write - request read)"
ACCEPTED = "of it: accepted minus sent"
BIN_US, FINE_US = 10, 1000
"""Errors of events are kept to the microsecond from FINE_US on."""


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

    Those of events, of which there are thousands, are two rows: the errors,
    to BIN_US below FINE_US, and how often each occurred. The others are one
    for each stream. `released_us` is from the first send to the last.
    """

    arrival_us: list[list[int]]
    lateness_us: list[list[int]]
    tpot_us: list[int]
    ttft_us: list[int]
    ttft_connected_us: list[int]
    accepted_us: list[int]
    released_us: int
    failed: int


def compare(records: Sequence[Record], played: Mapping[str, Played]) -> Wave:
    """What the client said beside what the server did, by request."""
    arrival: Counter[int] = Counter()
    lateness: Counter[int] = Counter()
    tpot, ttft, connected, accepted = [], [], [], []
    fine = [record for record in records if record.ok]
    for record in fine:
        truth = played[record.request]
        writes = [write for write in truth.writes if write.tokens]
        seen = [a.time_ns for a in record.arrivals if a.kind == "token"]
        pairs = list(zip(seen, writes, strict=True))
        arrival.update(_bin(ns - write.write_ns) for ns, write in pairs)
        lateness.update(_bin(w.write_ns - w.due_ns) for w in writes)
        first, last = writes[0].write_ns, writes[-1].write_ns
        spans = seen[-1] - seen[0], last - first
        tpot.append(_us((spans[0] - spans[1]) / (len(seen) - 1)))
        base = record.connected_ns or record.sent_ns
        connected.append(_us(seen[0] - base - (first - truth.read_ns)))
        if record.connected_ns is not None:
            sent = seen[0] - record.sent_ns
            ttft.append(_us(sent - (first - truth.accepted_ns)))
            accepted.append(_us(truth.accepted_ns - record.sent_ns))
    sends = [record.sent_ns for record in records]
    return Wave(
        _counted(arrival),
        _counted(lateness),
        tpot,
        ttft,
        connected,
        accepted,
        _us(max(sends) - min(sends)),
        len(records) - len(fine),
    )


def _us(nanoseconds: float) -> int:
    return round(nanoseconds / 1000)


def _bin(nanoseconds: float) -> int:
    us = _us(nanoseconds)
    return us if abs(us) >= FINE_US else BIN_US * round(us / BIN_US)


def _counted(counts: Counter[int]) -> list[list[int]]:
    errors = sorted(counts)
    return [errors, [counts[error] for error in errors]]


def to_text(report: Report) -> str:
    """The document of a report, strict JSON, a list of numbers a line."""
    return tool_report.to_text(
        {"schema": SCHEMA, "version": VERSION, **asdict(report)}
    )


def from_json(document: Mapping[str, Any]) -> Report:
    """The report in a document; LabError that says what is wrong with it."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    return documents.decode(Report, rest)


def errors_ms(report: Report, condition: str) -> dict[str, list[float]]:
    """All errors of a condition, its rounds together, by what is in error."""
    found: dict[str, list[float]] = {
        name: []
        for name in (ARRIVAL, LATENESS, TPOT, TTFT, ACCEPTED, TTFT_CONNECTED)
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
            for error, count in zip(*counted, strict=True):
                found[name] += [error / 1000] * count
        found[TPOT] += [error / 1000 for error in wave.tpot_us]
        found[TTFT] += [error / 1000 for error in wave.ttft_us]
        found[ACCEPTED] += [error / 1000 for error in wave.accepted_us]
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
    """A line for each bar: reached or missed."""
    lines = []
    for condition in (NEW, REUSED):
        errors = errors_ms(report, condition)
        p95 = metrics.percentile(errors[ARRIVAL], 95)
        worst = max(map(abs, errors[TPOT]), default=None)
        lines += [
            _goal(condition, f"{ARRIVAL}, p95", p95, ARRIVAL_P95_MS),
            _goal(condition, "TPOT error, maximum", worst, TPOT_MS),
        ]
    together = [abs(e) for e in errors_ms(report, AT_ONCE)[TTFT]]
    p99 = metrics.percentile(together, 99)
    lines.append(_goal(AT_ONCE, "TTFT error, p99", p99, TTFT_P99_MS))
    return lines


def _goal(condition: str, name: str, value: float | None, bar: float) -> str:
    reached = value is not None and value < bar
    return (
        f"{'reached' if reached else 'missed'}: {condition}, {name}"
        f" {_shown(value)} ms, wanted under {bar} ms"
    )


def released_ms(report: Report, condition: str) -> list[float]:
    """From the first send of a wave to its last, wave by wave."""
    return [
        seen.value["released_us"] / 1000
        for seen in report.observations
        if seen.condition == condition and isinstance(seen.value, Mapping)
    ]


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
        *_spread(report),
        *(f"noisy: {reason}" for reason in noise.reasons),
    ]


def _spread(report: Report) -> list[str]:
    spread = released_ms(report, AT_ONCE)
    if not spread:
        return []
    return [
        "released at once: from the first send of a wave to its last"
        f" {min(spread):.0f} to {max(spread):.0f} ms"
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
