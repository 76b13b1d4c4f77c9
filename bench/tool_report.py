"""The comparison of load generators as Markdown: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TOOLS = ("labkit", "guidellm", "llama-benchy")


def as_markdown(found: Mapping[str, Any]) -> str:
    """Two tables of a result: cases by verdict, and errors of streams."""
    return _cases(found["cases"]) + "\n" + _streams(found["streams"])


def right_of(cases: Mapping[str, Any], tool: str) -> str:
    """How many of the cases that were tried a tool has right."""
    verdicts = [each[tool][0] for each in cases.values() if tool in each]
    return f"{verdicts.count('right')} of {len(verdicts)}"


def most_events_per_s(streams: Mapping[str, Any], tool: str) -> float | None:
    """The most at which a tool's mean gap was right."""
    kept = [
        float(each[tool]["events_per_s"])
        for each in streams.values()
        if each.get(tool, {}).get("keeps_up")
    ]
    return max(kept, default=None)


def _cases(cases: Mapping[str, Any]) -> str:
    rows = [
        [name, *(_verdict(each.get(tool)) for tool in TOOLS)]
        for name, each in cases.items()
    ]
    rows.append(["**right**", *(right_of(cases, tool) for tool in TOOLS)])
    return _table(["case", *TOOLS], rows)


def _verdict(said: Sequence[str] | None) -> str:
    if said is None:
        return ""
    verdict, instead = said
    return f"{verdict}: {instead}" if verdict == "wrong" else verdict


def _streams(streams: Mapping[str, Any]) -> str:
    names = {
        "ttft_p50": "TTFT median",
        "ttft_worst": "TTFT worst",
        "tpot_mean": "mean gap",
        "tpot_worst": "gap worst",
        "late_ms": "server late (p95)",
    }
    rows = [
        [
            f"{each[tool]['events_per_s']:,.0f}",
            tool,
            *(_number(each[tool][name]) for name in names),
        ]
        for each in streams.values()
        for tool in TOOLS
        if "events_per_s" in each.get(tool, {})
    ]
    return _table(["events/s", "tool", *names.values()], rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
