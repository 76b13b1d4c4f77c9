"""How right, and how precise, are three load generators?

    python bench/loadgen_tools.py --guidellm PYTHON --llama-benchy PYTHON
    python bench/loadgen_tools.py --show    # the kept result as Markdown

guidellm, llama-benchy (each by a Python that has it) and labkit's own meet
the same server, which plays time lines whose right values are known. For
each fault of `tool_cases` it says whether a tool reports what is right; of
many streams, how far its values are from what was played; and up to which
number of events a second its gaps are right.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from load_tools import (
    GUIDELLM,
    LLAMA_BENCHY,
    Load,
    ToolReport,
    run_guidellm,
    run_llama_benchy,
)
from tool_cases import CASES, Case
from tool_report import as_markdown

from labkit import checkpoints, machine
from labkit.errors import LabError
from labkit.loadtest import metrics, rates
from labkit.loadtest.client import Client
from labkit.loadtest.openai_target import OpenAITarget
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Record, Request
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.timelines import one_by_one

RESULTS = Path(__file__).resolve().parent / "results"
FILE = "loadgen_tools.json"
LABKIT = "labkit"
NO_RATE = frozenset({LLAMA_BENCHY})
"""Tools that cannot send requests at a rate."""
STREAMS = 50
GAPS_MS = (40.0, 20.0, 10.0, 5.0)
"""Of 50 streams: 1,250 to 10,000 events a second."""
TTFT_MS = 200.0
STREAM_TOKENS = 100
KEEPS_UP_SHARE = 0.05
"""A tool keeps up while its mean gap is this near to what was played."""

Tool = Callable[[Load, Path], ToolReport]


def run_labkit(load: Load, folder: Path) -> ToolReport:
    """The course's own client, in threads of this process."""
    target = OpenAITarget(load.url, load.model, chat=True)
    waiting = deque(range(load.warm_up + load.requests))
    records: list[Record] = []
    first_ns = time.perf_counter_ns()

    def due_ns(number: int) -> int | None:
        if load.rate_per_s is None:
            return None
        return first_ns + round(number * 1e9 / load.rate_per_s)

    def work() -> None:
        while waiting:
            try:
                number = waiting.popleft()
            except IndexError:
                return
            due = due_ns(number)
            if due is not None:
                time.sleep(max(0, due - time.perf_counter_ns()) / 1e9)
            request = Request(f"m{number:04}", load.new_tokens, text="Hello")
            records.append(client.send(request, due_ns=due))

    with Client(target) as client:
        threads = [threading.Thread(target=work) for _ in range(load.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records.sort(key=lambda each: each.sent_ns)
    return report_of(records[load.warm_up :])


def report_of(records: Sequence[Record]) -> ToolReport:
    """The course's metrics of some records, in the form of a tool's."""
    good = [record for record in records if record.ok]

    def pooled(metric: Callable[[Record], Any]) -> tuple[float, ...]:
        return tuple(metrics.pooled(metric, records))

    starts = [record.sent_ns for record in good]
    ttft_ms = pooled(metrics.ttft_ms)
    return ToolReport(
        tool=LABKIT,
        version="",
        succeeded=len(good),
        failed=len(records) - len(good),
        ttft_ms=ttft_ms,
        itl_ms=pooled(metrics.itl_ms),
        tpot_ms=pooled(metrics.tpot_ms),
        e2e_ms=pooled(metrics.e2e_ms),
        scheduled_ms=pooled(metrics.e2e_from_schedule_ms),
        start_s=tuple((each - min(starts)) / 1e9 for each in starts),
        new_tokens=tuple(metrics.token_count(each) or 0 for each in good),
        median_ttft_ms=metrics.percentile(ttft_ms, 50),
        peak_tokens_per_s=tuple(
            rates.peak_tokens_per_s([each]) or 0 for each in good
        ),
        not_streamed=any(metrics.streamed(record) is False for record in good),
    )


@dataclass(frozen=True)
class Errors:
    """How far a tool's values are from what was played, in ms.

    `late_ms` is how late the server itself was (95 of 100 events at most).
    TTFT counts from when a tool says it sent, so that a connection and the
    way to the server are in it.
    """

    events_per_s: float
    requests: int
    failed: int
    late_ms: float
    ttft_p50: float | None
    ttft_worst: float | None
    tpot_mean: float | None
    tpot_worst: float | None
    seconds: float

    @property
    def keeps_up(self) -> bool:
        """Whether the mean gap is right, and the server was not held up.

        They share the machine: beside a tool that takes too much of it, the
        server falls behind, and the rate is not that of the time line.
        """
        gap = STREAMS * 1000 / self.events_per_s
        found = self.tpot_mean
        return (
            self.failed == 0
            and self.late_ms <= gap
            and found is not None
            and abs(found) <= KEEPS_UP_SHARE * gap
        )


def errors(
    report: ToolReport, truth: Sequence[Played], gap_ms: float, seconds: float
) -> Errors:
    """Compare a report of like streams with the moments of the writes.

    Which request of the tool's is which of the server's is not known, so
    that values are paired by size: this is the least that they are off by.
    """
    played = [_played(each) for each in truth]
    ttft = _off(report.ttft_ms, [ttft for ttft, _ in played])
    tpot = _off(report.gap_ms, [gap for _, gap in played])
    late = sorted(
        (write.write_ns - write.due_ns) / 1e6
        for each in truth
        for write in each.writes
    )
    return Errors(
        events_per_s=STREAMS * 1000 / gap_ms,
        requests=report.succeeded + report.failed,
        failed=report.failed,
        late_ms=late[int(0.95 * (len(late) - 1))],
        ttft_p50=metrics.percentile(ttft, 50),
        ttft_worst=max(ttft, key=abs, default=None),
        tpot_mean=sum(tpot) / len(tpot) if tpot else None,
        tpot_worst=max(tpot, key=abs, default=None),
        seconds=seconds,
    )


def _off(
    values: Sequence[float] | None, right: Sequence[float]
) -> list[float]:
    """Differences by order of size; empty where the counts differ."""
    if values is None or len(values) != len(right):
        return []
    pairs = zip(sorted(values), sorted(right), strict=True)
    return [value - wanted for value, wanted in pairs]


def _played(truth: Played) -> tuple[float, float]:
    """TTFT and the mean gap, in ms, of a stream of single tokens."""
    tokens = [w.write_ns for w in truth.writes if w.do == "tokens"]
    whole_ms = (tokens[-1] - tokens[0]) / 1e6
    return (tokens[0] - truth.read_ns) / 1e6, whole_ms / (len(tokens) - 1)


def try_case(case: Case, name: str, tool: Tool, base: Load) -> list[str]:
    """The verdict on one case, and what was said in its place.

    What is wrong in a time is tried once more: a busy machine can make a
    right definition wrong, and hardly a wrong one right.
    """
    if case.rate_per_s is not None and name in NO_RATE:
        return ["cannot", "it has no rate of arrivals"]
    verdict, instead = _try_once(case, tool, base)
    if verdict == "wrong" and ("_ms" in instead or "_s " in instead):
        verdict, instead = _try_once(case, tool, base)
    return [verdict, instead]


def _try_once(case: Case, tool: Tool, base: Load) -> tuple[str, str]:
    with (
        ScriptedServer(case.whole_script()) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        load = replace(
            base,
            url=server.url,
            requests=case.requests,
            clients=case.clients,
            rate_per_s=case.rate_per_s,
            new_tokens=case.new_tokens,
            warm_up=case.warm_up,
        )
        try:
            return case.judge(tool(load, Path(folder)))
        except LabError as error:
            return "wrong", str(error).splitlines()[-1][:120]


def try_streams(tool: Tool, base: Load, gap_ms: float) -> Errors:
    """50 streams at once, twice."""
    times = [TTFT_MS + gap_ms * k for k in range(STREAM_TOKENS)]
    with (
        ScriptedServer([one_by_one(times)]) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        load = replace(
            base,
            url=server.url,
            requests=2 * STREAMS,
            clients=STREAMS,
            new_tokens=STREAM_TOKENS,
        )
        before = time.perf_counter()
        report = tool(load, Path(folder))
        seconds = time.perf_counter() - before
        return errors(report, server.truth(), gap_ms, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try labkit and the tools that are given; keep and print the result.

    What the file has of other tools stays there.
    """
    asked = _parser().parse_args(arguments)
    if asked.show:
        kept = json.loads(asked.out.read_text(encoding="utf-8"))
        print(as_markdown(kept), end="")
        return 0
    tools: dict[str, Tool] = {} if asked.no_labkit else {LABKIT: run_labkit}
    if asked.guidellm:
        tools[GUIDELLM] = partial(run_guidellm, asked.guidellm)
    if asked.llama_benchy:
        tools[LLAMA_BENCHY] = partial(run_llama_benchy, asked.llama_benchy)
    folder = checkpoints.require(checkpoints.find(checkpoints.DEFAULT))
    base = Load("", "scripted", folder, prompt_tokens=16)
    found: dict[str, Any] = {
        "machine": asdict(machine.identify()),
        "date": datetime.now(UTC).date().isoformat(),
        "cases": {},
        "streams": {},
    }
    if asked.out.exists():
        found |= json.loads(asked.out.read_text(encoding="utf-8"))
    chosen = [case for case in CASES if asked.only in case.name]
    for case in () if asked.no_cases else chosen:
        verdicts = found["cases"].setdefault(case.name, {})
        verdicts |= _each(tools, partial(_case, case, base))
    for gap_ms in asked.gaps:
        measured = found["streams"].setdefault(f"{gap_ms:g} ms", {})
        measured |= _each(tools, partial(_streams, base, gap_ms))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1) + "\n"
    asked.out.write_text(text, encoding="utf-8")
    print(as_markdown(found), end="")
    return 0


def _each(
    tools: Mapping[str, Tool], run: Callable[[str, Tool], Any]
) -> dict[str, Any]:
    return {name: run(name, tool) for name, tool in tools.items()}


def _case(case: Case, base: Load, name: str, tool: Tool) -> list[str]:
    verdict = try_case(case, name, tool, base)
    print(f"{case.name}: {name} {' '.join(verdict)}", file=sys.stderr)
    return verdict


def _streams(
    base: Load, gap_ms: float, name: str, tool: Tool
) -> dict[str, Any]:
    try:
        found = try_streams(tool, base, gap_ms)
    except LabError as error:
        return {"error": str(error).splitlines()[-1][:200]}
    print(f"{gap_ms} ms: {name} {found}", file=sys.stderr)
    return asdict(found) | {"keeps_up": found.keeps_up}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare load generators.")
    parser.add_argument("--guidellm", type=Path, help="a Python with it")
    parser.add_argument("--llama-benchy", type=Path, help="a Python with it")
    slug = machine.slug(machine.identify(), machine.software())
    out = RESULTS / slug / FILE
    parser.add_argument("--out", type=Path, default=out, help="the result")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--no-labkit", action="store_true")
    parser.add_argument("--no-cases", action="store_true")
    parser.add_argument("--only", default="", help="cases with this in them")
    parser.add_argument("--gaps", type=float, nargs="*", default=list(GAPS_MS))
    return parser


if __name__ == "__main__":
    sys.exit(main())
