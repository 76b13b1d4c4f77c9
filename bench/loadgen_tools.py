"""How right, and how precise, are three load generators?

    python bench/loadgen_tools.py --guidellm PYTHON --llama-benchy PYTHON
    python bench/loadgen_tools.py --show    # the kept result as Markdown

guidellm, llama-benchy (each by a Python that has it) and labkit's own meet
the same server, which plays time lines whose right values are known. The
Pythons can be in LABKIT_GUIDELLM and LABKIT_LLAMA_BENCHY; where one is
missing, there is a sentence and nothing is run or kept. The rules were fixed
before the run that is kept, and hold for every tool alike.

`cases`: the faults of `tool_cases`, by the rules written there.

`streams`: STREAMS clients released at once, WAVES requests of each, the
first of which is left out (a tool's first requests wait for what it loads).
Everything is run ROUNDS times, the tools in shuffled order, and all values
of all rounds count. TTFT is compared with write minus accepted for the first
request on a connection, and with write minus read for a later one; the mean
gap with that of the writes. A tool's requests cannot be told apart at the
server, so that values and truths are paired by size, which makes errors the
least that they can be: for labkit as well, where they could be told.

A tool keeps up at a rate of events when in every round all requests succeed,
the mean gap is within KEEPS_UP_SHARE of what was played, and 95 of 100
writes of the server are late by no more than one gap: both share the
machine, and beside a tool that takes too much of it the rate is not that of
the time line. Its most events a second is the highest rate that was tried at
which it keeps up, at all lower ones too.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
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
from tool_cases import CASES, SLACK_MS, SLACK_SHARE, Case
from tool_report import (
    KEEPS_UP_SHARE,
    SCHEMA,
    VERSION,
    as_markdown,
    to_text,
)

from labkit import checkpoints, documents, machine, results, store
from labkit.errors import LabError
from labkit.loadtest import metrics, rates
from labkit.loadtest.client import Client
from labkit.loadtest.openai_target import OpenAITarget
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Record, Request
from labkit.loadtest.sampler import load_average
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.timelines import TimeLine, one_by_one

RESULTS = Path(__file__).resolve().parent / "results"
FILE = "loadgen_tools.json"
LABKIT = "labkit"
PARTS = ("cases", "streams")
NO_RATE = frozenset({LLAMA_BENCHY})
"""Tools that cannot send requests at a rate."""
STREAMS, WAVES, ROUNDS, SEED = 50, 3, 2, 0
GAPS_MS = (20.0, 10.0, 5.0, 2.5, 1.25)
"""Of 50 streams: 2,500 to 40,000 events a second."""
TTFT_MS = 200.0
STREAM_TOKENS = 100

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
    return report_of(records[load.warm_up :], load.rate_per_s)


def report_of(
    records: Sequence[Record], asked_per_s: float | None = None
) -> ToolReport:
    """The course's metrics of some records, in the form of a tool's."""
    good = [record for record in records if record.ok]

    def pooled(metric: Callable[[Record], Any]) -> tuple[float, ...]:
        return tuple(metrics.pooled(metric, records))

    starts = [record.sent_ns for record in good]
    ttft_ms = pooled(metrics.ttft_ms)
    return ToolReport(
        tool=LABKIT,
        version=version("labkit"),
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
        asked_per_s=asked_per_s,
        achieved_per_s=rates.request_throughput(records),
        ttft_name=metrics.ttft_ms.__name__,
    )


@dataclass(frozen=True)
class Errors:
    """How far a tool's values are from what was played, in ms.

    One of each request, by size of the value, to a microsecond. `late_ms`
    is how late the server itself was in writing, 95 of 100 at most.
    """

    failed: int
    late_ms: float
    ttft_ms: list[float]
    gap_ms: list[float]


def errors(report: ToolReport, truth: Sequence[Played], skip: int) -> Errors:
    """Compare a report of like streams with the moments of the writes.

    The first `skip` requests are left out of both.
    """
    seen = {each.accepted_ns: each for each in reversed(truth)}
    played = [
        _played(each, first=seen[each.accepted_ns] is each) for each in truth
    ][skip:]
    late = [
        (write.write_ns - write.due_ns) / 1e6
        for each in truth[skip:]
        for write in each.writes
    ]
    return Errors(
        failed=report.failed,
        late_ms=metrics.percentile(late, 95) or 0.0,
        ttft_ms=_off(report.ttft_ms, [ttft for ttft, _ in played], skip),
        gap_ms=_off(report.gap_ms, [gap for _, gap in played], skip),
    )


def _off(
    values: Sequence[float] | None, right: Sequence[float], skip: int
) -> list[float]:
    """Differences by order of size; empty where the counts differ."""
    kept = (values or ())[skip:]
    if len(kept) != len(right):
        return []
    pairs = zip(sorted(kept), sorted(right), strict=True)
    return [round(value - wanted, 3) for value, wanted in pairs]


def _played(truth: Played, *, first: bool) -> tuple[float, float]:
    """TTFT and the mean gap, in ms, of a stream of single tokens."""
    tokens = [w.write_ns for w in truth.writes if w.do == "tokens"]
    whole_ms = (tokens[-1] - tokens[0]) / 1e6
    since = truth.accepted_ns if first else truth.read_ns
    return (tokens[0] - since) / 1e6, whole_ms / (len(tokens) - 1)


def try_case(case: Case, name: str, tool: Tool, base: Load) -> list[str]:
    """The verdict on one case, and what was said in its place."""
    if case.rate_per_s is not None and name in NO_RATE:
        return ["cannot", "it has no rate of arrivals"]
    load = replace(
        base,
        requests=case.requests,
        clients=case.clients,
        rate_per_s=case.rate_per_s,
        new_tokens=case.new_tokens,
        warm_up=case.warm_up,
    )
    with _playing(case.whole_script(), load) as (_, load, folder):
        try:
            return [*case.judge(tool(load, folder))]
        except LabError as error:
            return ["wrong", str(error).splitlines()[-1][:120]]


def try_streams(gap_ms: float, tool: Tool, base: Load) -> dict[str, Any]:
    """Many streams at once, WAVES times; or the error that came of it."""
    times = [TTFT_MS + gap_ms * k for k in range(STREAM_TOKENS)]
    load = replace(
        base,
        requests=WAVES * STREAMS,
        clients=STREAMS,
        new_tokens=STREAM_TOKENS,
    )
    with _playing([one_by_one(times)], load) as (server, load, folder):
        try:
            report = tool(load, folder)
        except LabError as error:
            return {"error": str(error).splitlines()[-1][:200]}
        return asdict(errors(report, server.truth(), STREAMS))


@contextmanager
def _playing(
    script: Sequence[TimeLine], load: Load
) -> Iterator[tuple[ScriptedServer, Load, Path]]:
    with (
        ScriptedServer(script) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        yield server, replace(load, url=server.url), Path(folder)


def cases(tools: Mapping[str, Tool], base: Load) -> list[dict[str, Any]]:
    """All cases by all tools, whose order is shuffled."""
    found = []
    for case in CASES:
        verdicts = {
            name: try_case(case, name, tool, base)
            for name, tool in _shuffled(tools, case.name)
        }
        _say(f"{case.number} {case.name}: {verdicts}")
        found.append(
            {"number": case.number, "name": case.name, "verdicts": verdicts}
        )
    return found


def streams(tools: Mapping[str, Tool], base: Load) -> list[dict[str, Any]]:
    """All rates in all rounds by all tools, whose order is shuffled."""
    found = []
    for turn in range(1, ROUNDS + 1):
        for gap_ms in GAPS_MS:
            rate = STREAMS * 1000 / gap_ms
            for name, tool in _shuffled(tools, f"{turn} {gap_ms}"):
                _say(f"round {turn}, {rate:,.0f} events/s: {name}")
                run = {"round": turn, "tool": name, "events_per_s": rate}
                run["played_gap_ms"] = gap_ms
                found.append(run | try_streams(gap_ms, tool, base))
    return found


def _shuffled(tools: Mapping[str, Tool], seed: str) -> list[tuple[str, Tool]]:
    found = list(tools.items())
    # No secret: a seed is there to give the same order again.
    random.Random(f"{SEED} {seed}").shuffle(found)  # noqa: S311
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


PROTOCOL: Mapping[str, Mapping[str, Any]] = {
    "cases": {
        "name": "one try of each case by each tool, version 1",
        "slack_ms": SLACK_MS,
        "slack_share": SLACK_SHARE,
        "seed": SEED,
    },
    "streams": {
        "name": "streams released at once, version 1",
        "streams": STREAMS,
        "waves": WAVES,
        "left_out": STREAMS,
        "rounds": ROUNDS,
        "tokens": STREAM_TOKENS,
        "first_ms": TTFT_MS,
        "keeps_up_share": KEEPS_UP_SHARE,
        "seed": SEED,
    },
}


def measured(part: str, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """One part of the result, with where and how it was made."""
    versions: dict[str, str] = {}

    def noted(tool: Tool, load: Load, folder: Path) -> ToolReport:
        report = tool(load, folder)
        versions[report.tool] = report.version
        return report

    run = {"cases": cases, "streams": streams}[part]
    base = Load("", "scripted", _tokenizer(), prompt_tokens=16)
    started, load_before = datetime.now(UTC), load_average()
    before = time.perf_counter()
    found = run({n: partial(noted, t) for n, t in tools.items()}, base)
    return {
        "machine": asdict(machine.identify()),
        "software": machine.software(),
        "tools": dict(sorted(versions.items())),
        "protocol": PROTOCOL[part],
        "started_utc": results.timestamp(started),
        "seconds": round(time.perf_counter() - before),
        "load_before": load_before,
        "load_after": load_average(),
        "found": found,
    }


def _tokenizer() -> Path:
    return checkpoints.require(checkpoints.find(checkpoints.DEFAULT))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all tools and keep the result, or show what is kept.

    A part that is run replaces what was kept of it as a whole.
    """
    asked = _parser().parse_args(arguments)
    if asked.show:
        print(as_markdown(documents.read(asked.out)), end="")
        return 0
    if not (asked.guidellm and asked.llama_benchy):
        print(
            "The comparison of load generators was left out: it needs"
            " LABKIT_GUIDELLM and LABKIT_LLAMA_BENCHY, the paths of two"
            " Pythons with these tools."
        )
        return 0
    tools: dict[str, Tool] = {
        LABKIT: run_labkit,
        GUIDELLM: partial(run_guidellm, asked.guidellm),
        LLAMA_BENCHY: partial(run_llama_benchy, asked.llama_benchy),
    }
    kept = documents.read(asked.out) if asked.out.exists() else {}
    kept |= {"schema": SCHEMA, "version": VERSION}
    for part in asked.parts:
        kept[part] = measured(part, tools)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        store.write_text(asked.out, to_text(kept))
    print(as_markdown(kept), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare load generators.")
    for name, variable in (
        ("--guidellm", "LABKIT_GUIDELLM"),
        ("--llama-benchy", "LABKIT_LLAMA_BENCHY"),
    ):
        here = os.environ.get(variable)
        parser.add_argument(
            name,
            type=Path,
            default=Path(here) if here else None,
            help=f"a Python with it; {variable} if left out",
        )
    slug = machine.slug(machine.identify(), machine.software())
    out = RESULTS / slug / FILE
    parser.add_argument("--out", type=Path, default=out, help="the result")
    parser.add_argument("--show", action="store_true")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS)
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(str(error))
