"""Faults that users of load tools met, as time lines with right values.

A case says what a server does and what is to be reported of it, and judges
a report. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from load_tools import ToolReport

from labkit.loadtest.timelines import Do, Step, TimeLine, one_by_one

Verdict = Literal["right", "wrong", "not said"]
SLACK_MS = 9.0
"""A right definition on a busy machine is mostly within this; a wrong one
is further off in every case."""
SLACK_SHARE = 0.05
"""The same where a value is no time in ms and no count."""
COUNTS = frozenset({"succeeded", "failed", "new_tokens", "not_streamed"})


@dataclass(frozen=True)
class Case:
    """`expected` is what a report must say, by the names of `said`.

    Lists are compared sorted: which request came first does not matter.
    The first claim has to be said; where a tool is silent about another,
    that one is left out.
    """

    name: str
    script: tuple[TimeLine, ...]
    expected: Mapping[str, tuple[float, ...]]
    requests: int = 1
    clients: int = 1
    rate_per_s: float | None = None
    warm_up: int = 1
    """Good answers before, of which the report is to say nothing."""

    def whole_script(self) -> list[TimeLine]:
        """A time line for each request."""
        often = -(-self.requests // len(self.script))
        lines = [*self.script] * often
        return [GOOD] * self.warm_up + lines[: self.requests]

    @property
    def new_tokens(self) -> int:
        """What a request asks for: the most that a time line gives."""
        counts = [
            sum(step.count or 1 for step in line.steps if step.do == "tokens")
            for line in self.script
        ]
        return max(1, *counts)

    def judge(self, report: ToolReport) -> tuple[Verdict, str]:
        """The verdict, and what was said in place of the right values."""
        found = {name: said(report, name) for name in self.expected}
        wrong = [
            f"{name} {_shown(values)}"
            for name, values in found.items()
            if values is not None
            and not _same(name, values, self.expected[name])
        ]
        if wrong:
            return "wrong", ", ".join(wrong)
        main = next(iter(found.values()))
        return ("not said" if main is None else "right"), ""


def said(report: ToolReport, name: str) -> tuple[float, ...] | None:
    """What a report says under one of the names that cases use."""
    scheduled, starts = report.scheduled_ms, report.start_s
    derived = {
        "mean_scheduled_s": (
            sum(scheduled) / len(scheduled) / 1000 if scheduled else None
        ),
        "span_s": max(starts) if starts else None,
    }
    value = derived[name] if name in derived else getattr(report, name)
    if value is None or isinstance(value, tuple):
        return value
    return (float(value),)


def _same(name: str, values: Sequence[float], right: Sequence[float]) -> bool:
    def slack(wanted: float) -> float:
        if name in COUNTS:
            return 0.0
        return SLACK_MS if name.endswith("_ms") else SLACK_SHARE * wanted

    pairs = zip(sorted(values), sorted(right), strict=False)
    return len(values) == len(right) and all(
        abs(value - wanted) <= slack(wanted) for value, wanted in pairs
    )


def _shown(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values[:4]) + "]"


def _line(*steps: tuple[float, Do] | tuple[float, Do, int]) -> TimeLine:
    return TimeLine(tuple(Step(*step) for step in steps))


def _tokens(first_ms: float, count: int, gap_ms: float) -> TimeLine:
    """Single tokens at even distances, after a role."""
    return one_by_one([first_ms + gap_ms * k for k in range(count)])


GOOD = _tokens(100, 3, 20)
EMPTY = _line((0, "start"), (50, "done"))
REFUSED = TimeLine(status=503)
LATE = _line((0, "start"), *((500, "tokens", 1),) * 10, (500, "done"))
NO_COUNT = TimeLine(
    (
        Step(0, "start"),
        *(Step(100 + 20 * k, "tokens", 1) for k in range(10)),
        Step(280, "raw", text="data: [DONE]\n\n"),
    )
)
CASES = (
    Case(
        "a role is no token",
        (
            _line(
                (5, "start"), (205, "tokens"), (225, "tokens"), (225, "done")
            ),
        ),
        {"ttft_ms": (205,), "itl_ms": (20,)},
    ),
    Case(
        "TPOT without TTFT",
        (GOOD,),
        {"tpot_ms": (20,)},
    ),
    Case(
        "several tokens in a chunk",
        (
            _line(
                *((0, "start"), (100, "tokens", 1), (130, "tokens", 3)),
                *((160, "tokens", 3), (160, "done")),
            ),
        ),
        {"new_tokens": (7,), "gap_ms": (10,)},
    ),
    Case(
        "peak of two chunks of four within a second",
        (_line((100, "tokens", 4), (600, "tokens", 4), (600, "done")),),
        {"peak_tokens_per_s": (8,)},
    ),
    Case(
        "ten chunks, and no usage at the end",
        (NO_COUNT,),
        {"new_tokens": (10,)},
    ),
    Case(
        "status 200, and no token",
        (EMPTY,),
        {"failed": (1,), "ttft_ms": ()},
    ),
    Case(
        "one request of three without a token",
        (GOOD, EMPTY, GOOD),
        {"ttft_ms": (100, 100), "failed": (1,)},
        requests=3,
    ),
    Case(
        "a single token has no TPOT",
        (_tokens(50, 1, 0),),
        {"ttft_ms": (50,), "tpot_ms": (), "itl_ms": ()},
    ),
    Case(
        "an error event after two tokens",
        (GOOD, _line((0, "start"), (100, "tokens"), (120, "error"))),
        {"failed": (1,), "ttft_ms": (100,)},
        requests=2,
    ),
    Case(
        "a stream that just ends after two tokens",
        (GOOD, _line((0, "start"), (100, "tokens"), (120, "tokens"))),
        {"failed": (1,), "ttft_ms": (100,)},
        requests=2,
    ),
    Case(
        "five of ten refused",
        (GOOD, REFUSED),
        {"failed": (5,), "succeeded": (5,), "ttft_ms": (100,) * 5},
        requests=10,
    ),
    Case(
        "one connection cut in the middle",
        (GOOD, GOOD, _line((0, "start"), (100, "tokens"), (110, "cut")), GOOD),
        {"failed": (1,), "succeeded": (3,), "ttft_ms": (100,) * 3},
        requests=4,
    ),
    Case(
        "a comment before the data",
        (
            _line(
                (0, "start"), (10, "comment"), (100, "tokens"), (100, "done")
            ),
        ),
        {"ttft_ms": (100,), "failed": (0,)},
    ),
    Case(
        "due every 100 ms, one at a time, 500 ms each",
        (_tokens(500, 1, 0),),
        {"mean_scheduled_s": (1.9,), "e2e_ms": (500,) * 8},
        warm_up=0,
        requests=8,
        rate_per_s=10,
    ),
    Case(
        "200 requests a second keep to the schedule",
        (_tokens(20, 1, 0),),
        {"span_s": (4.995,), "failed": (0,)},
        warm_up=0,
        requests=1000,
        clients=100,
        rate_per_s=200,
    ),
    Case(
        "the median of 115 and 315",
        (_tokens(315, 1, 0), _tokens(115, 1, 0)),
        {"median_ttft_ms": (215,)},
        warm_up=0,  # a slow first request stays in the upper half
        requests=10,
    ),
    Case(
        "all tokens in one burst at the end",
        (LATE,),
        {"not_streamed": (1,)},
    ),
)
"""Each was reported wrong by some tool."""
