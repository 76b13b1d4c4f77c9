"""Faults that users of load tools met, as time lines with right values.

A case says what a server does and what is to be reported of it, and judges
a report. Nothing here runs anything. The rules, which were fixed before the
run that is kept, and hold for every tool alike:

- A tool meets each case once. There is no second try, and no run is left
  out: what a busy machine made wrong counts as wrong.
- A case has one claim or several. The first must be said; where a tool is
  silent about another, that one is left out. One value that is not right
  makes the case wrong. `not said` and `cannot` are no rights.
- A count is right when it is equal. A time is right within SLACK_MS, half
  of the least distance between a right value and a wrong one that was seen
  (case 3: 10 and 30 ms). A rate, or a time in seconds, is right within
  SLACK_SHARE, half of the least ratio (case 14: 5.0 and 6.0 s). So what is
  judged here are definitions; how precise values are is for the streams of
  `loadgen_tools`.
- Values of several requests are compared sorted, and there must be as many
  as are due. Of ITL, which a tool gives for each gap or for each request,
  every value must be right, and there must be one.
- A tool may call a value as it likes: `load_tools` says which of its fields
  is taken for what, in a tool's favour where two would do.
- One good answer comes before (`warm_up`), for a tool's first request waits
  for what it loads; it is left out. Two of guidellm's own means would hold
  it, so that cases with these have none.

Not put to the tools, of the 23 in all: 15 (needs two runs with one seed, and
what a user does between them), 16 (needs a server with the tokenizer), 18
and 21 (marks in a report, for which neither tool has a field; a stall is
made by stopping a tool's process), 19 (TCP_NODELAY is the server's).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from load_tools import ToolReport

from labkit.loadtest.timelines import Do, Step, TimeLine, one_by_one

Verdict = Literal["right", "wrong", "not said"]
SLACK_MS = 10.0
SLACK_SHARE = 0.1
COUNTS = frozenset(
    {"succeeded", "failed", "new_tokens", "not_streamed", "unit_in_name"}
)


@dataclass(frozen=True)
class Case:
    """`expected` is what a report must say, by the names of `said`.

    `number` is that of the fault: one can have several cases.
    """

    number: int
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
        "unit_in_name": (
            float(report.ttft_name.endswith(("_ms", "_s")))
            if report.ttft_name
            else None
        ),
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

    if name == "itl_ms" and values:
        right = tuple(right[:1]) * len(values)
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
        1,
        "a role is no token",
        (
            _line(
                (5, "start"), (205, "tokens"), (225, "tokens"), (225, "done")
            ),
        ),
        {"ttft_ms": (205,), "itl_ms": (20,)},
    ),
    Case(
        2,
        "TPOT without TTFT",
        (GOOD,),
        {"tpot_ms": (20,), "itl_ms": (20,)},
    ),
    Case(
        3,
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
        4,
        "peak of two chunks of four within a second",
        (_line((100, "tokens", 4), (600, "tokens", 4), (600, "done")),),
        {"peak_tokens_per_s": (8,)},
    ),
    Case(
        5,
        "ten chunks, and no usage at the end",
        (NO_COUNT,),
        {"new_tokens": (10,)},
    ),
    Case(
        6,
        "status 200, and no token",
        (EMPTY,),
        {"failed": (1,), "ttft_ms": ()},
    ),
    Case(
        7,
        "one request of three without a token",
        (GOOD, EMPTY, GOOD),
        {"ttft_ms": (100, 100), "failed": (1,)},
        requests=3,
    ),
    Case(
        8,
        "a single token has no TPOT",
        (_tokens(50, 1, 0),),
        {"ttft_ms": (50,), "tpot_ms": (), "itl_ms": ()},
    ),
    Case(
        9,
        "an error event after two tokens",
        (GOOD, _line((0, "start"), (100, "tokens"), (120, "error"))),
        {"failed": (1,), "ttft_ms": (100,)},
        requests=2,
    ),
    Case(
        9,
        "a stream that just ends after two tokens",
        (GOOD, _line((0, "start"), (100, "tokens"), (120, "tokens"))),
        {"failed": (1,), "ttft_ms": (100,)},
        requests=2,
    ),
    Case(
        10,
        "five of ten refused",
        (GOOD, REFUSED),
        {"failed": (5,), "succeeded": (5,), "ttft_ms": (100,) * 5},
        requests=10,
    ),
    Case(
        11,
        "one connection cut in the middle",
        (GOOD, GOOD, _line((0, "start"), (100, "tokens"), (110, "cut")), GOOD),
        {"failed": (1,), "succeeded": (3,), "ttft_ms": (100,) * 3},
        requests=4,
    ),
    Case(
        12,
        "a comment before the data",
        (
            _line(
                (0, "start"), (10, "comment"), (100, "tokens"), (100, "done")
            ),
        ),
        {"ttft_ms": (100,), "failed": (0,)},
    ),
    Case(
        13,
        "due every 100 ms, one at a time, 500 ms each",
        (_tokens(500, 1, 0),),
        {"mean_scheduled_s": (1.9,), "e2e_ms": (500,) * 8},
        warm_up=0,
        requests=8,
        rate_per_s=10,
    ),
    Case(
        14,
        "200 requests a second keep to the schedule",
        (_tokens(20, 1, 0),),
        {"span_s": (4.995,), "failed": (0,)},
        warm_up=0,
        requests=1000,
        clients=100,
        rate_per_s=200,
    ),
    Case(
        17,
        "the median of 115 and 315",
        (_tokens(315, 1, 0), _tokens(115, 1, 0)),
        {"median_ttft_ms": (215,)},
        warm_up=0,  # a slow first request stays in the upper half
        requests=10,
    ),
    Case(
        20,
        "all tokens in one burst at the end",
        (LATE,),
        {"not_streamed": (1,)},
    ),
    Case(
        22,
        "100 requests a second asked, 20 achieved",
        (_tokens(50, 1, 0),),
        {"asked_per_s": (100,), "achieved_per_s": (20,)},
        warm_up=0,
        requests=60,
        rate_per_s=100,
    ),
    Case(
        23,
        "the unit in the name of TTFT",
        (GOOD,),
        {"unit_in_name": (1,)},
    ),
)
"""Each was reported wrong by some tool."""
