"""What `python -m labkit loadtest` does."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

from labkit import store
from labkit.errors import LabError
from labkit.loadtest import (
    evidence,
    loops,
    place,
    report,
    runner,
    schedule,
    workload,
)
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.plan import (
    TIMEOUT_S,
    Arrivals,
    Configuration,
    Plan,
    number,
)
from labkit.loadtest.rates import Objectives

Prompts = Literal["passage", "random"]
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Wanted:
    """What a person asks of a load test.

    Either `clients`, or `arrivals` at `rate_per_s`; `arrivals` may also be
    a file with a moment in seconds on each line.
    """

    clients: int | None = None
    rate_per_s: float | None = None
    arrivals: str = "constant"
    most_in_flight: int | None = None
    requests: int = 20
    warmups: int = 1
    input_tokens: int = 64
    new_tokens: int = 24
    prompts: str = "passage"
    vocabulary: int | None = None
    seed: int = 0
    timeout_s: float = TIMEOUT_S
    objectives: Objectives = field(default_factory=Objectives)


@dataclass(frozen=True)
class Target:
    """Which server; `openai` names its model on OpenAI's routes."""

    url: str
    openai: str | None = None
    pid: int | None = None
    keep_alive: bool = False


def start(folder: Path, target: Target, wanted: Wanted) -> None:
    """Write down what is to be done in a new folder."""
    from labkit.loadtest.wire import Address

    Address.of(target.url)
    told = {} if target.openai else health(target.url)
    made = plan_of(wanted, told.get("vocabulary"), told.get("context"))
    about = {
        **place.here(),
        "model": {"name": target.openai or told.get("model")},
        "target": {
            "protocol": "openai" if target.openai else "lab",
            "keep_alive": target.keep_alive,
            "server": told,
        },
    }
    evidence.create(folder, made, about)


def go_on(folder: Path, target: Target) -> bool:
    """Measure what is missing; whether the run is whole now."""
    from labkit.loadtest.client import Client
    from labkit.loadtest.exchange import Timeouts
    from labkit.loadtest.lab_target import LabTarget
    from labkit.loadtest.openai_target import OpenAITarget

    before = evidence.load(folder)
    place.require_same(before)
    told = before.environment["target"]
    patience_s = before.plan.timeout_s
    timeouts = Timeouts(min(5.0, patience_s), patience_s, patience_s)
    openai = told["protocol"] == "openai"
    where = (
        OpenAITarget(target.url, before.environment["model"]["name"])
        if openai
        else LabTarget(target.url)
    )
    with Client(where, timeouts, keep_alive=told["keep_alive"]) as client:
        threads = told["server"].get("threads")
        serving = loops.Serving(client, target.pid, threads)
        whole = runner.run(folder, lambda _: nullcontext(serving))
    if whole:
        report.finish(folder)
    return whole


def plan_of(
    wanted: Wanted, vocabulary: int | None, context: int | None
) -> Plan:
    """The plan of one configuration; LabError for what cannot be done."""
    if wanted.requests < 1 or wanted.warmups < 0:
        raise LabError("Ask for at least one request and no negative number.")
    room = wanted.input_tokens + wanted.new_tokens
    if context is not None and room > context:
        raise LabError(
            f"{wanted.input_tokens} tokens in and {wanted.new_tokens} out are"
            f" more than the {context} that the server has room for."
        )
    asked = _configuration(wanted)
    prompts = _prompts(wanted, vocabulary)
    warmups, measured = prompts[: wanted.warmups], prompts[wanted.warmups :]
    name, new = asked.name, wanted.new_tokens
    offsets = _offsets_ns(wanted, asked)
    if offsets is not None:
        measured = measured[: len(offsets)]
    return Plan(
        seed=wanted.seed,
        prompts=wanted.prompts,
        vocabulary=wanted.vocabulary or vocabulary,
        configurations=(asked,),
        requests=(
            *number(name, "warmup", warmups, new),
            *number(name, "measured", measured, new, offsets_ns=offsets),
        ),
        objectives=wanted.objectives,
        timeout_s=wanted.timeout_s,
    )


def objectives(words: Sequence[str]) -> Objectives:
    """From words such as ttft_ms=500; LabError for others."""
    names = [each.name for each in fields(Objectives)]
    bounds: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            bounds[name] = float(value)
        except ValueError:
            bounds[name] = -1.0
        if name not in names or not 0 < bounds[name] < float("inf"):
            raise LabError(
                f"{word!r} is no objective: write one of {', '.join(names)},"
                " = and milliseconds, such as ttft_ms=500."
            )
    return Objectives(**bounds)


def write_page(found: Evidence, path: Path) -> None:
    """Write the report as one page for a browser."""
    from labkit.loadtest import charts, tables

    made = report.figures(found)
    _write(path, tables.as_page(found, made, charts.pictures(found)))


def write_csv(found: Evidence, path: Path) -> None:
    """Write every figure on a line of its own."""
    _write(path, report.as_csv(report.figures(found)))


def _write(path: Path, text: str) -> None:
    try:
        store.write_text(path, text)
    except OSError as error:
        raise LabError(
            f"{path} could not be written ({error.strerror or error}): choose"
            " another place."
        ) from error


def _configuration(wanted: Wanted) -> Configuration:
    tokens = f"{wanted.input_tokens} in, {wanted.new_tokens} out"
    if wanted.clients is not None:
        if wanted.rate_per_s is not None:
            raise LabError("Give --clients or --rate, not both.")
        plural = "s" * (wanted.clients != 1)
        name = f"{wanted.clients} client{plural}, {tokens}"
        return Configuration(name, clients=wanted.clients)
    kind = wanted.arrivals
    arrivals = cast(
        Arrivals, kind if kind in get_args(Arrivals) else "recorded"
    )
    if arrivals != "recorded" and wanted.rate_per_s is None:
        raise LabError(
            "Give --clients N for a closed loop, or --rate R for an open one."
        )
    rate = f"{wanted.rate_per_s:g}/s " if wanted.rate_per_s else ""
    return Configuration(
        f"{rate}{arrivals}, {tokens}",
        rate_per_s=wanted.rate_per_s,
        arrivals=arrivals,
        most_in_flight=wanted.most_in_flight,
    )


def _offsets_ns(wanted: Wanted, asked: Configuration) -> list[int] | None:
    if asked.arrivals is None:
        return None
    if asked.arrivals == "recorded":
        moments = schedule.read_moments_s(Path(wanted.arrivals))
        return schedule.recorded_ns(moments)[: wanted.requests]
    assert asked.rate_per_s is not None
    if asked.arrivals == "constant":
        return schedule.constant_ns(asked.rate_per_s, wanted.requests)
    return schedule.poisson_ns(asked.rate_per_s, wanted.requests, wanted.seed)


def _prompts(wanted: Wanted, vocabulary: int | None) -> list[workload.Ids]:
    count = wanted.warmups + wanted.requests
    lengths = [wanted.input_tokens] * count
    if wanted.prompts == "passage":
        ids = workload.passage_ids()
        return workload.from_text(ids, lengths, wanted.seed)
    if wanted.prompts != "random":
        raise LabError(
            f"There are no prompts {wanted.prompts!r}: choose passage or"
            " random."
        )
    known = wanted.vocabulary or vocabulary
    if known is None:
        raise LabError(
            "This server does not tell its vocabulary: add --vocabulary N."
        )
    return workload.random_ids(known, lengths, wanted.seed)


def health(url: str) -> dict[str, Any]:
    """What the course's server tells of itself."""
    # No proxy: servers of this course are on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    base = url if "://" in url else f"http://{url}"
    try:
        with opener.open(
            f"{base.rstrip('/')}/health", timeout=PATIENCE_S
        ) as got:
            told = json.load(got)
        wanted = ("model", "context", "vocabulary", "threads", "weights")
        return {name: told[name] for name in wanted if name in told}
    except (OSError, ValueError, TypeError) as error:
        raise LabError(
            f"No server of this course answers at {url} ({error}): start one"
            " with `python -m labkit serve`, or add --openai MODEL for one of"
            " another kind."
        ) from error
