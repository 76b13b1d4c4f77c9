"""The comparison of load generators as Markdown: pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from labkit import documents, machine
from labkit.loadtest import metrics

SCHEMA = "labkit.bench.loadgen_tools"
VERSION = 1
TOOLS = ("labkit", "guidellm", "llama-benchy")
KEEPS_UP_SHARE = 0.05
LONG_LIST = re.compile(r"\[\s+(-?[\d.]+(?:,\s+-?[\d.]+)*)\s+\]")
"""A list of numbers over several lines."""
RIGHT = frozenset({"", "events/s", "p99", "max", "server late p95"})
"""Columns of numbers, to the right."""


def to_text(document: Mapping[str, Any]) -> str:
    """The text of a document, strict JSON, a list of numbers a line."""
    return LONG_LIST.sub(
        lambda found: f"[{','.join(found[1].replace(',', ' ').split())}]",
        documents.to_text(document),
    )


def as_markdown(document: Mapping[str, Any]) -> str:
    """What was run, then cases by verdict and errors of streams."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    text = [_context(part, found) for part, found in sorted(rest.items())]
    if "cases" in rest:
        text += ["", _cases(rest["cases"]["found"])]
    if "streams" in rest:
        runs = rest["streams"]["found"]
        text += ["", _streams(runs), "", *_kept_up(runs)]
    return "\n".join(text) + "\n"


def right_of(cases: Sequence[Mapping[str, Any]], tool: str) -> str:
    """How many cases a tool has right, of all."""
    verdicts = [each["verdicts"][tool][0] for each in cases]
    return f"{verdicts.count('right')} of {len(verdicts)}"


def keeps_up(run: Mapping[str, Any]) -> bool:
    """Whether a tool kept up in one run, by the rule of `loadgen_tools`."""
    gap_ms = run["played_gap_ms"]
    off: Sequence[float] = run.get("gap_ms", ())
    return (
        len(off) > 0
        and run["failed"] == 0
        and run["late_ms"] <= gap_ms
        and abs(sum(off) / len(off)) <= KEEPS_UP_SHARE * gap_ms
    )


def most_events_per_s(
    runs: Sequence[Mapping[str, Any]], tool: str
) -> float | None:
    """The highest rate at which a tool keeps up, at all lower ones too."""
    most = None
    for rate in sorted({run["events_per_s"] for run in runs}):
        if not all(keeps_up(run) for run in _of(runs, tool, rate)):
            break
        most = rate
    return most


def _of(
    runs: Sequence[Mapping[str, Any]], tool: str, rate: float
) -> list[Mapping[str, Any]]:
    return [
        run
        for run in runs
        if (run["tool"], run["events_per_s"]) == (tool, rate)
    ]


def _context(part: str, found: Mapping[str, Any]) -> str:
    here = machine.Machine(**found["machine"])
    tools = ", ".join(f"{k} {v}" for k, v in found["tools"].items())
    how = ", ".join(
        f"{name.replace('_', ' ')} {value:g}"
        for name, value in found["protocol"].items()
        if not isinstance(value, str)
    )
    loads = [found["load_before"], found["load_after"]]
    load = " and ".join("unknown" if n is None else f"{n:.1f}" for n in loads)
    return (
        f"- {part}: {found['protocol']['name']} ({how}); {tools};"
        f" {here.cpu}, {here.cores} cores; {found['started_utc']},"
        f" {found['seconds']} s, load average before and after {load}"
    )


def _cases(cases: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            str(each["number"]),
            each["name"],
            *(_verdict(each["verdicts"][tool]) for tool in TOOLS),
        ]
        for each in cases
    ]
    rows.append(["", "**right**", *(right_of(cases, tool) for tool in TOOLS)])
    return _table(["", "case", *TOOLS], rows)


def _verdict(said: Sequence[str]) -> str:
    verdict, instead = said
    return f"{verdict}: {instead}" if verdict == "wrong" else verdict


def _streams(runs: Sequence[Mapping[str, Any]]) -> str:
    head = ["events/s", "tool", "TTFT error p50", "p99", "max"]
    head += ["mean gap error", "max", "server late p95", "keeps up"]
    rates = sorted({run["events_per_s"] for run in runs})
    rows = [_row(_of(runs, tool, r), r) for r in rates for tool in TOOLS]
    return _table(head, rows)


def _row(runs: Sequence[Mapping[str, Any]], rate: float) -> list[str]:
    """All rounds of a tool at a rate; errors without their sign."""
    late = [run["late_ms"] for run in runs if "late_ms" in run]
    ttft = [abs(e) for run in runs for e in run.get("ttft_ms", ())]
    gaps = [e for run in runs for e in run.get("gap_ms", ())]
    numbers = (
        metrics.percentile(ttft, 50),
        metrics.percentile(ttft, 99),
        max(ttft, default=None),
        abs(sum(gaps) / len(gaps)) if gaps else None,
        max(map(abs, gaps), default=None),
        max(late, default=None),
    )
    kept = sum(map(keeps_up, runs))
    return [
        f"{rate:,.0f}",
        runs[0]["tool"],
        *("-" if n is None else f"{n:.2f}" for n in numbers),
        f"{kept} of {len(runs)}",
    ]


def _kept_up(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    tried = max(run["events_per_s"] for run in runs)
    lines = []
    for tool in TOOLS:
        most = most_events_per_s(runs, tool)
        said = "none that was tried" if most is None else f"{most:,.0f}"
        said += ", the most that was tried" if most == tried else ""
        lines.append(f"- events/s that {tool} keeps up with: {said}")
    return lines


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if "error" in c or c in RIGHT else "---" for c in head]
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, rule, *rows])
