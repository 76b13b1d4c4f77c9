"""What `python -m labkit loadtest` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
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
    sampler,
    schedule,
    served,
    workload,
)
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.plan import (
    TIMEOUT_S,
    Arrivals,
    Configuration,
    Phase,
    Plan,
    number,
)
from labkit.loadtest.rates import Objectives

Prompts = Literal["passage", "random"]
REQUESTS = 20
MAX_REQUESTS = 100_000
MAX_TOKENS = 10_000_000
"""Of all prompts together, and of one answer: far more than is measured."""


@dataclass(frozen=True)
class Wanted:
    """What a person asks of a load test.

    Either `clients`, or `arrivals` at `rate_per_s` (constant if None);
    `arrivals` may also be a file with a moment in seconds on each line.
    `requests` None: 20, or as many as were recorded.
    """

    clients: int | None = None
    rate_per_s: float | None = None
    arrivals: str | None = None
    most_in_flight: int | None = None
    requests: int | None = None
    warmups: int = 1
    input_tokens: int = 64
    new_tokens: int = 24
    prompts: str = "passage"
    vocabulary: int | None = None
    seed: int = 0
    timeout_s: float = TIMEOUT_S
    objectives: Objectives = field(default_factory=Objectives)


@dataclass(frozen=True)
class Server:
    """Which server; `openai` names its model on OpenAI's routes."""

    url: str
    openai: str | None = None
    pid: int | None = None
    keep_alive: bool = False


def start(folder: Path, server: Server, wanted: Wanted) -> None:
    """Write down what is to be done in a new folder."""
    from labkit.loadtest.wire import Address

    Address.of(server.url)
    told = served.about(server.url, openai=server.openai is not None)
    made = plan_of(wanted, told.get("vocabulary"), told.get("context"))
    about = {
        **place.here(),
        "model": {"name": server.openai or told.get("model")},
        "target": {
            "protocol": "openai" if server.openai else "lab",
            "keep_alive": server.keep_alive,
            "server": told,
        },
    }
    evidence.create(folder, made, about)


def go_on(folder: Path, server: Server) -> bool:
    """Measure what is missing; whether the run is whole now."""
    from labkit.loadtest.client import Client
    from labkit.loadtest.exchange import Timeouts
    from labkit.loadtest.lab_target import LabTarget
    from labkit.loadtest.openai_target import OpenAITarget

    before = evidence.load(folder)
    place.require_same(before)
    told = before.environment["target"]
    if "server" not in told:
        raise LabError(
            f"{folder} holds a matrix: finish it with `python -m labkit"
            f" matrix --resume --out {folder}`."
        )
    served.require_same(before, server.url)
    if server.pid is not None and not sampler.exists(server.pid):
        raise LabError(f"There is no process {server.pid}: look it up again.")
    patience_s = before.plan.timeout_s
    timeouts = Timeouts(min(5.0, patience_s), patience_s, patience_s)
    key, vocabulary = served.key(), before.plan.vocabulary
    name = before.environment["model"]["name"]
    where = (
        OpenAITarget(server.url, name, key=key, vocabulary=vocabulary)
        if told["protocol"] == "openai"
        else LabTarget(server.url, key, vocabulary)
    )
    with Client(where, timeouts, keep_alive=told["keep_alive"]) as client:
        threads = told["server"].get("threads")
        serving = loops.Serving(client, server.pid, threads)
        whole = runner.run(folder, lambda _: nullcontext(serving))
    if whole:
        report.finish(folder)
    return whole


def require_same_options(folder: Path, given: Mapping[str, Any]) -> None:
    """LabError for an option that the run was not begun with."""
    found = evidence.load(folder)
    plan, target = found.plan, found.environment["target"]
    asked, lab = plan.configurations[0], target["protocol"] == "lab"
    planned = {phase: plan.of(asked.name, phase) for phase in get_args(Phase)}
    first = planned["measured"][0]
    begun = {
        "clients": asked.clients,
        "rate": asked.rate_per_s,
        "arrivals": asked.arrivals,
        "most_in_flight": asked.most_in_flight,
        "requests": len(planned["measured"]),
        "warmups": len(planned["warmup"]),
        "input_tokens": len(first.prompt_ids),
        "new_tokens": first.new_tokens,
        "prompts": plan.prompts,
        "vocabulary": plan.vocabulary,
        "seed": plan.seed,
        "timeout": plan.timeout_s,
        "objective": plan.objectives,
        "openai": None if lab else found.environment["model"]["name"],
        "keep_alive": target.get("keep_alive"),
    }
    for name, value in given.items():
        now = objectives(value) if name == "objective" else value
        if name == "arrivals" and value not in get_args(Arrivals):
            now = "recorded"
        if name in begun and now != begun[name]:
            raise LabError(
                f"This run was begun with another --{name.replace('_', '-')}:"
                " leave that option out to finish it, or begin another run"
                " in another folder."
            )


def plan_of(
    wanted: Wanted, vocabulary: int | None, context: int | None
) -> Plan:
    """The plan of one configuration; LabError for what cannot be done."""
    asked = _configuration(wanted)
    wanted, offsets = _scheduled(wanted, asked)
    _check_sizes(wanted)
    room = wanted.input_tokens + wanted.new_tokens
    if context is not None and room > context:
        raise LabError(
            f"{wanted.input_tokens} tokens in and {wanted.new_tokens} out are"
            f" more than the {context} that the server has room for."
        )
    known = vocabulary if wanted.vocabulary is None else wanted.vocabulary
    prompts = _prompts(wanted, known)
    warmups, measured = prompts[: wanted.warmups], prompts[wanted.warmups :]
    name, new = asked.name, wanted.new_tokens
    return Plan(
        seed=wanted.seed,
        prompts=wanted.prompts,
        vocabulary=known,
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


def require_success(made: Mapping[str, Any]) -> None:
    """LabError for a report in which no request succeeded."""
    parts = [each["all"] for each in made["configurations"].values()]
    if made["requests"] and all(p["failed"] == p["requests"] for p in parts):
        raise LabError(
            "Not one request succeeded, as the table says: see that the"
            " server, its address and its key are right, and measure again."
        )


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
        if wanted.arrivals is not None or wanted.most_in_flight is not None:
            raise LabError(
                "--arrivals and --most-in-flight are for an open loop: give"
                " --rate, not --clients."
            )
        if wanted.objectives.ttft_from_schedule_ms is not None:
            raise LabError(
                "A closed loop has no schedule: give another objective than"
                " ttft_from_schedule_ms, or --rate."
            )
        plural = "s" * (wanted.clients != 1)
        name = f"{wanted.clients} client{plural}, {tokens}"
        return Configuration(name, clients=wanted.clients)
    kind = wanted.arrivals or "constant"
    arrivals = cast(
        Arrivals, kind if kind in get_args(Arrivals) else "recorded"
    )
    if arrivals != "recorded" and wanted.rate_per_s is None:
        raise LabError(
            "Give --clients N for a closed loop, or --rate R for an open one."
        )
    if arrivals == "recorded" and wanted.rate_per_s is not None:
        raise LabError(
            "Recorded arrivals have a rate of their own: leave --rate out."
        )
    rate = f"{wanted.rate_per_s:g}/s " if wanted.rate_per_s else ""
    return Configuration(
        f"{rate}{arrivals}, {tokens}",
        rate_per_s=wanted.rate_per_s,
        arrivals=arrivals,
        most_in_flight=wanted.most_in_flight,
    )


def _check_sizes(wanted: Wanted) -> None:
    """LabError for sizes that cannot be planned."""
    count = wanted.requests or 0
    if count < 1 or wanted.warmups < 0:
        raise LabError("Ask for at least one request and no negative number.")
    if count + wanted.warmups > MAX_REQUESTS:
        raise LabError(f"Ask for at most {MAX_REQUESTS} requests.")
    tokens = (count + wanted.warmups) * wanted.input_tokens
    if max(tokens, wanted.new_tokens) > MAX_TOKENS:
        raise LabError(
            f"Ask for fewer tokens: at most {MAX_TOKENS} in all prompts"
            " together, and in an answer."
        )


def _scheduled(
    wanted: Wanted, asked: Configuration
) -> tuple[Wanted, list[int] | None]:
    """With the number of requests, and when an open loop wants them."""
    if asked.arrivals == "recorded":
        moments = schedule.read_moments_s(Path(wanted.arrivals or ""))
        offsets = schedule.recorded_ns(moments)
        count = len(offsets) if wanted.requests is None else wanted.requests
        if count > len(offsets):
            raise LabError(
                f"{len(offsets)} arrivals were recorded, fewer than {count}:"
                " ask for fewer requests."
            )
        return replace(wanted, requests=count), offsets[:count]
    count = REQUESTS if wanted.requests is None else wanted.requests
    wanted = replace(wanted, requests=count)
    _check_sizes(wanted)
    rate = asked.rate_per_s
    if asked.arrivals is None or rate is None:
        return wanted, None
    if asked.arrivals == "constant":
        return wanted, schedule.constant_ns(rate, count)
    return wanted, schedule.poisson_ns(rate, count, wanted.seed)


def _prompts(wanted: Wanted, known: int | None) -> list[workload.Ids]:
    count = wanted.warmups + (wanted.requests or 0)
    lengths = [wanted.input_tokens] * count
    if wanted.prompts == "passage":
        ids = workload.passage_ids()
        return workload.from_text(ids, lengths, wanted.seed)
    if wanted.prompts != "random":
        raise LabError(
            f"There are no prompts {wanted.prompts!r}: choose passage or"
            " random."
        )
    if known is None:
        raise LabError(
            "This server does not tell its vocabulary: add --vocabulary N."
        )
    return workload.random_ids(known, lengths, wanted.seed)
