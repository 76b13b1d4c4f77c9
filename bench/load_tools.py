"""Two public load tools, guidellm and llama-benchy, run and read.

Each lives in an environment of its own, because their dependencies are not
the course's: a function is given the path of a Python that has the tool.
What comes back is what the tool itself reports, under this course's names
and in milliseconds; docs/server.md says where the tools' words differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import LabError

GUIDELLM = "guidellm"
LLAMA_BENCHY = "llama-benchy"
TTFT_OF_GUIDELLM = "time_to_first_token_ms"
TTFT_OF_LLAMA_BENCHY = "e2e_ttft"
TIMEOUT_S = 300
BOOK_URL = "http://book.invalid/book.txt"
"""Names the text in llama-benchy's cache; nothing is fetched from it."""
TAIL = 600
"""Characters of a tool's output that an error shows."""


@dataclass(frozen=True)
class Load:
    """What a tool is to send to the server at `url` (without /v1).

    `requests` in all, `clients` at a time; with `rate_per_s` each when it
    is due, and no more than `clients` at a time. `tokenizer` is a folder
    with tokenizer.json and tokenizer_config.json. llama-benchy releases its
    clients together and waits for all of them, so its requests are a
    multiple of its clients. `warm_up` requests go before the others, one
    at a time, and are left out of the report: a tool's first request waits
    for what it loads. `book` is what llama-benchy cuts its prompts from.
    """

    url: str
    model: str
    tokenizer: Path
    requests: int = 8
    clients: int = 1
    prompt_tokens: int = 64
    new_tokens: int = 24
    rate_per_s: float | None = None
    warm_up: int = 0
    book: str = "The quick brown fox jumps over the lazy dog. " * 200

    @property
    def rounds(self) -> int:
        """How often the clients are released together."""
        return max(1, self.requests // self.clients) + self.warm_up


@dataclass(frozen=True)
class ToolReport:
    """What a tool said of one run; None is what it does not say.

    The values are of the requests that it takes for good, in its order:
    `ttft_ms` to the first token; `itl_ms` from one token to the next, each
    or the mean of a request; `tpot_ms` what it calls the time of a token;
    `e2e_ms` to the end, `scheduled_ms` the same from when it was due;
    `start_s` when it was sent, from the first one; `new_tokens` as it
    counted them; `peak_tokens_per_s` of each round of clients;
    `not_streamed` warns of an answer that came in one burst; `asked_per_s`
    and `achieved_per_s` are rates of requests; `ttft_name` is its own name
    of TTFT in its report. `printed` are its own figures under its own
    names, for a table.
    """

    tool: str
    version: str
    succeeded: int
    failed: int
    ttft_ms: tuple[float, ...] | None = None
    itl_ms: tuple[float, ...] | None = None
    tpot_ms: tuple[float, ...] | None = None
    e2e_ms: tuple[float, ...] | None = None
    scheduled_ms: tuple[float, ...] | None = None
    start_s: tuple[float, ...] | None = None
    prompt_tokens: tuple[int, ...] | None = None
    new_tokens: tuple[int, ...] | None = None
    median_ttft_ms: float | None = None
    peak_tokens_per_s: tuple[float, ...] | None = None
    not_streamed: bool | None = None
    asked_per_s: float | None = None
    achieved_per_s: float | None = None
    ttft_name: str | None = None
    printed: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def gap_ms(self) -> tuple[float, ...] | None:
        """The mean time of a token after the first, of each request.

        guidellm's name for it is ITL; its TPOT has TTFT inside.
        """
        return self.itl_ms if self.tool == GUIDELLM else self.tpot_ms


def run_guidellm(python: Path, load: Load, folder: Path) -> ToolReport:
    """Run guidellm with `python`; its files are left in `folder`.

    LabError when the tool ends without a report.
    """
    report = folder / "guidellm.json"
    _run(guidellm_command(python, load, report), folder)
    return read_guidellm(_loaded(report, GUIDELLM), load.warm_up)


def guidellm_command(python: Path, load: Load, report: Path) -> list[str]:
    """One closed loop of chat requests, without progress on the screen."""
    count = load.requests + load.warm_up
    data = f"prompt_tokens={load.prompt_tokens}"
    data += f",output_tokens={load.new_tokens}"
    profile = "kind=synchronous"
    if load.rate_per_s is not None:
        profile = f"kind=constant,rate={load.rate_per_s}"
        profile += f",max_concurrency={load.clients}"
    elif load.clients > 1:
        profile = f"kind=concurrent,streams={load.clients}"
    return [
        *(str(python), "-m", "guidellm", "run"),
        *("--backend", f"kind=openai_http,target={load.url}"),
        *("--profile", profile),
        *("--constraint", f"kind=max_requests,count={count}"),
        *("--tokenizer", f"kind=hf_auto,model={load.tokenizer}"),
        *("--data", f"kind=synthetic_text,{data}"),
        *("--output", f"kind=json,path={report}"),
        "--disable-console",
    ]


def read_guidellm(document: Mapping[str, Any], warm_up: int = 0) -> ToolReport:
    """The first benchmark in a report of guidellm (its version 2).

    Without the first `warm_up` requests, except in its own aggregates.
    """
    benchmark = document["benchmarks"][0]
    good = (benchmark["requests"]["successful"] or [])[warm_up:]
    totals = benchmark["metrics"]["request_totals"]

    def of_requests(name: str, scale: float = 1.0) -> tuple[float, ...]:
        values = [request[name] for request in good]
        return tuple(each * scale for each in values if each is not None)

    starts = of_requests("request_start_time")
    return ToolReport(
        tool=GUIDELLM,
        version=document["metadata"]["guidellm_version"],
        succeeded=totals["successful"] - warm_up,
        failed=totals["errored"] + totals["incomplete"],
        ttft_ms=of_requests(TTFT_OF_GUIDELLM),
        itl_ms=of_requests("inter_token_latency_ms"),
        tpot_ms=of_requests("time_per_output_token_ms"),
        e2e_ms=of_requests("request_latency", 1000.0),
        scheduled_ms=of_requests("request_scheduled_latency", 1000.0),
        start_s=tuple(each - min(starts) for each in starts),
        prompt_tokens=tuple(map(int, of_requests("prompt_tokens"))),
        new_tokens=tuple(map(int, of_requests("output_tokens"))),
        median_ttft_ms=_of_metric(benchmark, TTFT_OF_GUIDELLM),
        asked_per_s=benchmark["config"]["strategy"].get("rate"),
        achieved_per_s=_of_metric(benchmark, "requests_per_second", "mean"),
        ttft_name=TTFT_OF_GUIDELLM,
        printed=_printed_by_guidellm(benchmark["metrics"]),
    )


def _of_metric(
    benchmark: Mapping[str, Any], name: str, value: str = "median"
) -> float | None:
    metric = benchmark["metrics"][name]["successful"]
    return None if metric is None else float(metric[value])


def _printed_by_guidellm(metrics: Mapping[str, Any]) -> dict[str, float]:
    names = {
        TTFT_OF_GUIDELLM: "TTFT",
        "inter_token_latency_ms": "ITL",
        "time_per_output_token_ms": "TPOT",
    }
    printed = {}
    for name, word in names.items():
        good = metrics[name]["successful"]
        if good is None:
            continue
        printed[f"{word} mean (ms)"] = good["mean"]
        printed[f"{word} median (ms)"] = good["median"]
        printed[f"{word} p95 (ms)"] = good["percentiles"]["p95"]
    return printed


def run_llama_benchy(
    python: Path, load: Load, folder: Path, more: Sequence[str] = ()
) -> ToolReport:
    """Run llama-benchy with `python`; its files are left in `folder`.

    Without warm-up, probes or checks of the answer: nothing is sent but
    the requests. LabError when the tool ends without a report.
    """
    _keep_book(load.book, folder)
    report = folder / "llama_benchy.json"
    events = folder / "llama_benchy.jsonl"
    command = [
        *llama_benchy_command(python, load, report, events),
        *more,
    ]
    _run(command, folder)
    lines = events.read_text(encoding="utf-8").splitlines()
    return read_llama_benchy(
        _loaded(report, LLAMA_BENCHY),
        [json.loads(each) for each in lines],
        load.warm_up,
    )


def llama_benchy_command(
    python: Path, load: Load, report: Path, events: Path
) -> list[str]:
    """Rounds of chat requests whose clients are released together."""
    return [
        *(str(python), "-m", "llama_benchy"),
        *("--base-url", f"{load.url}/v1", "--model", load.model),
        *("--tokenizer", str(load.tokenizer), "--book-url", BOOK_URL),
        *("--pp", str(load.prompt_tokens), "--tg", str(load.new_tokens)),
        *("--concurrency", str(load.clients), "--runs", str(load.rounds)),
        *("--no-warmup", "--no-adapt-prompt", "--skip-coherence"),
        *("--latency-mode", "none", "--exact-tg"),
        *("--format", "json", "--save-result", str(report)),
        *("--emit-progress", str(events)),
    ]


def read_llama_benchy(
    document: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    warm_up: int = 0,
) -> ToolReport:
    """A report of llama-benchy, and its stream of progress events (v1).

    The report has no counts and no failures; the events have them. Without
    the first `warm_up` requests, except in its own means.
    """
    run = document["benchmarks"][0]
    ends = [event for event in events if event["type"] == "request_end"]
    good = [event for event in ends if not event["error"]][warm_up:]
    names = (
        TTFT_OF_LLAMA_BENCHY,
        "ttfr",
        "tg_req_throughput",
        "peak_throughput",
    )
    return ToolReport(
        tool=LLAMA_BENCHY,
        version=document["version"],
        succeeded=len(good),
        failed=sum(bool(event["error"]) for event in ends),
        ttft_ms=_values(run[TTFT_OF_LLAMA_BENCHY])[warm_up:],
        tpot_ms=tuple(
            1000 / rate for rate in _values(run["tg_req_throughput"])
        )[warm_up:],
        prompt_tokens=tuple(event["prompt_tokens"] for event in good),
        new_tokens=tuple(event["total_tokens"] for event in good),
        peak_tokens_per_s=_values(run["peak_throughput"])[warm_up:],
        ttft_name=TTFT_OF_LLAMA_BENCHY,
        printed={f"{name} mean": _mean(run[name]) for name in names},
    )


def _values(metric: Mapping[str, Any] | None) -> tuple[float, ...]:
    return () if metric is None else tuple(metric["values"])


def _mean(metric: Mapping[str, Any] | None) -> float | None:
    return None if metric is None else float(metric["mean"])


def _keep_book(text: str, home: Path) -> None:
    """Put the text where llama-benchy looks before it downloads one."""
    name = hashlib.md5(BOOK_URL.encode(), usedforsecurity=False).hexdigest()
    cache = home / ".cache" / "llama-benchy"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{name}.txt").write_text(text, encoding="utf-8")


def _run(command: Sequence[str], folder: Path) -> None:
    """Run a tool at home in `folder`, with no way to a model hub."""
    home = {"HOME": str(folder), "USERPROFILE": str(folder)}
    offline = {"HF_HUB_OFFLINE": "1", "NO_PROXY": "*", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            command,
            env=dict(os.environ) | home | offline,
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(
            f"{command[2]} did not run to its end ({error}): try its "
            f"command by hand."
        ) from error
    (folder / f"{command[2]}.log").write_text(
        done.stdout + done.stderr, encoding="utf-8"
    )


def _loaded(report: Path, tool: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(
            report.read_text(encoding="utf-8")
        )
    except (OSError, ValueError) as error:
        logs = sorted(report.parent.glob("*.log"))
        said = logs[-1].read_text(encoding="utf-8")[-TAIL:] if logs else ""
        raise LabError(
            f"{tool} left no report that can be read: see what it said.\n"
            f"{said}"
        ) from error
    return document
