"""What a run of `fuzz.py` found: counts by operation, and what must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labkit import documents, tables
from labkit.machine import Machine

SCHEMA = "labkit.bench.fuzz"
VERSION = 1
NO_ANSWER = "none"
"""Stands for a status where there was none."""


@dataclass(frozen=True)
class Operation:
    """What was sent to one operation, and how it was answered.

    `invalid` counts examples that break the description on purpose.
    `statuses` is by the status of the answer.
    """

    examples: int
    invalid: int
    statuses: Mapping[str, int]
    failures: int


@dataclass(frozen=True)
class Standing:
    """The server with no request in it."""

    threads: int
    files: int
    """Open file descriptors; handles on Windows."""
    running: int
    waiting: int


@dataclass(frozen=True)
class Report:
    """One run.

    `checks` counts how often each was made, `failures` has a sentence for
    each different one that failed.
    """

    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    most_examples: int
    seed: int
    seconds: float
    checks: Mapping[str, int]
    operations: Mapping[str, Operation]
    failures: tuple[str, ...]
    before: Standing
    after: Standing
    served_after: bool


def to_text(report: Report) -> str:
    """The document of a report, strict JSON."""
    document = {"schema": SCHEMA, "version": VERSION, **asdict(report)}
    return documents.to_text(document)


def from_json(document: Mapping[str, object]) -> Report:
    """The report in a document; LabError that says what is wrong with it."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    return documents.decode(Report, rest)


class Tally:
    """Counts what schemathesis recorded, scenario by scenario."""

    def __init__(self) -> None:
        self.checks: Counter[str] = Counter()
        self._examples: Counter[str] = Counter()
        self._invalid: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._statuses: dict[str, Counter[str]] = {}

    def add(self, recorder: Mapping[str, Any]) -> None:
        """Count one scenario in."""
        label = recorder["label"]
        statuses = self._statuses.setdefault(label, Counter())
        for case in recorder.get("cases", {}).values():
            meta = case["value"].get("meta") or {}
            mode = meta.get("generation", {}).get("mode")
            self._examples[label] += 1
            self._invalid[label] += mode == "negative"
        for made in recorder.get("interactions", {}).values():
            answer = made.get("response") or {}
            statuses[str(answer.get("status_code", NO_ANSWER))] += 1
        for checks in recorder.get("checks", {}).values():
            self.checks.update(check["name"] for check in checks)
            failed = sum(each["status"] != "success" for each in checks)
            self._failures[label] += failed

    def operations(self) -> dict[str, Operation]:
        """What was counted, in the order of the names."""
        return {
            label: Operation(
                self._examples[label],
                self._invalid[label],
                dict(sorted(self._statuses[label].items())),
                self._failures[label],
            )
            for label in sorted(self._statuses)
        }


@dataclass(frozen=True)
class Check:
    """Something that must hold, and the numbers that say whether it does."""

    name: str
    holds: bool
    detail: str


def checks(report: Report) -> list[Check]:
    """Everything that must hold."""
    before, after = report.before, report.after
    failed = sum(each.failures for each in report.operations.values())
    done = sum(report.checks.values())
    told = "".join(f"; {sentence}" for sentence in report.failures)
    answered = "answered" if report.served_after else "not answered"
    return [
        Check(
            "every answer is as the description says",
            failed == 0 and not report.failures and done > 0,
            f"{failed} of {done} checks failed{told}",
        ),
        Check(
            "every request has an answer",
            all(
                NO_ANSWER not in o.statuses for o in report.operations.values()
            )
            and _total(report) > 0,
            f"{_total(report)} sent",
        ),
        Check(
            "no slot is stuck",
            after.running == after.waiting == 0 and report.served_after,
            f"{after.running} running and {after.waiting} waiting at the end,"
            f" one more request {answered}",
        ),
        _steady("threads", before.threads, after.threads),
        _steady("open files", before.files, after.files),
    ]


def _total(report: Report) -> int:
    return sum(each.examples for each in report.operations.values())


def _steady(what: str, before: int, after: int) -> Check:
    return Check(
        f"{what} do not grow",
        after <= before,
        f"{before} before, {after} after",
    )


def context_lines(report: Report) -> Iterator[str]:
    """What was run, on what, and when."""
    here = report.machine
    versions = ", ".join(f"{k} {v}" for k, v in report.software.items())
    yield f"{here.cpu}, {here.cores} cores, {here.system}; {versions}"
    yield (
        f"{_total(report)} requests in {report.seconds:.0f} s: the cases that"
        f" the description's limits suggest, and up to {report.most_examples}"
        f" random ones for each operation with a body; seed {report.seed};"
        f" {report.started_utc}"
    )
    yield f"checks: {', '.join(sorted(report.checks))}"


HEAD = ("operation", "requests", "invalid on purpose", "statuses", "failures")


def rows(report: Report) -> list[tuple[str, ...]]:
    """The table, its heading first."""
    return [HEAD, *map(_cells, report.operations.items())]


def _cells(named: tuple[str, Operation]) -> tuple[str, ...]:
    label, operation = named
    return (
        label,
        str(operation.examples),
        str(operation.invalid),
        ", ".join(f"{n} x {s}" for s, n in operation.statuses.items()),
        str(operation.failures),
    )


def check_lines(report: Report) -> Iterator[str]:
    """One line for each thing that must hold."""
    for check in checks(report):
        verdict = "holds" if check.holds else "FAILS"
        yield f"{verdict}: {check.name}: {check.detail}"


def as_text(report: Report) -> str:
    """Everything that is printed at the end of a run."""
    table = tables.as_text(rows(report))
    parts = [*context_lines(report), "", table, "", *check_lines(report)]
    return "\n".join(parts)


def as_markdown(report: Report) -> str:
    """The same for docs/server.md."""
    head, *body = rows(report)
    rule = ("---", "---:", "---:", "---", "---:")
    return "\n".join(
        [
            *_bullets(context_lines(report)),
            "",
            *map(_row, (head, rule, *body)),
            "",
            *_bullets(check_lines(report)),
        ]
    )


def _bullets(lines: Iterable[str]) -> Iterator[str]:
    bullet: Callable[[str], str] = "- {}".format
    return map(bullet, lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
