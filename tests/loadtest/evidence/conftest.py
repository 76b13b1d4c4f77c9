"""Small load tests without a server, and what can be done to evidence."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.loadtest import evidence, loops, report, runner
from labkit.loadtest.plan import Configuration, Plan, number
from labkit.loadtest.records import Arrival, Record, Request
from labkit.progress import Silent

VOCABULARY = 1000
ABOUT = {"machine": {"cpu": "1 x"}, "software": {}, "model": None, "target": 1}


class PlayingClient:
    """Answers every request by itself: a start, its tokens, and done.

    `pause_s` passes before each event. The requests in `failing` get one
    token and an error. `sent` and `most` say what was asked of it.
    """

    def __init__(
        self, pause_s: float = 0.0, failing: Collection[str] = ()
    ) -> None:
        self.pause_s = pause_s
        self.failing = failing
        self.sent: list[str] = []
        self.in_flight = self.most = 0

    def send(
        self,
        request: Request,
        *,
        due_ns: int | None = None,
        on_sent: Callable[[str, int], object] | None = None,
        on_arrival: Callable[[str, Arrival], object] | None = None,
    ) -> Record:
        self.sent.append(request.name)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        sent_ns = time.perf_counter_ns()
        if on_sent is not None:
            on_sent(request.name, sent_ns)
        arrivals = []
        for kind, ids in self._script(request):
            time.sleep(self.pause_s)
            now = time.perf_counter_ns()
            arrival = Arrival(now, kind, ids, len(ids), now, "x" * len(ids))
            arrivals.append(arrival)
            if on_arrival is not None:
                on_arrival(request.name, arrival)
        self.in_flight -= 1
        failed = request.name in self.failing
        return Record(
            request=request.name,
            sent_ns=sent_ns,
            end_ns=time.perf_counter_ns(),
            due_ns=due_ns,
            connected_ns=sent_ns,
            arrivals=tuple(arrivals),
            status=200,
            failure="error_event" if failed else None,
            prompt_tokens=len(request.prompt_ids or ()),
            new_tokens=1 if failed else request.new_tokens,
            counted="ids",
            queued_ns=arrivals[0].time_ns,
            start_ns=arrivals[0].time_ns,
        )

    def _script(self, request: Request) -> list[tuple[Any, tuple[int, ...]]]:
        tokens = [("token", (n,)) for n in range(request.new_tokens)]
        if request.name in self.failing:
            return [("start", ()), tokens[0], ("error", ())]
        return [("start", ()), *tokens, ("done", ())]


def connect_to(
    client: loops.Sender,
) -> Callable[[Configuration], AbstractContextManager[loops.Serving]]:
    return lambda asked: nullcontext(loops.Serving(client, None, 1))


def make_plan(
    requests: int = 3, new_tokens: int = 3, open_loop: bool = False
) -> Plan:
    """Two configurations, the first a closed loop with two clients."""
    offsets = None
    second = Configuration("one client", threads=1, clients=1)
    if open_loop:
        second = Configuration("open", rate_per_s=500.0, arrivals="constant")
        offsets = [2_000_000 * n for n in range(requests)]
    first = Configuration("two clients", threads=2, clients=2)
    prompts = [(n, n + 1) for n in range(2 * requests + 2)]
    measured = number(
        second.name,
        "measured",
        prompts[requests : 2 * requests],
        new_tokens,
        requests,
        offsets_ns=offsets,
    )
    return Plan(
        seed=1,
        prompts="counting",
        vocabulary=VOCABULARY,
        configurations=(first, second),
        requests=(
            *number(first.name, "warmup", prompts[-2:-1], new_tokens),
            *number(first.name, "measured", prompts[:requests], new_tokens),
            *number(second.name, "warmup", prompts[-1:], new_tokens, 1),
            *measured,
        ),
    )


def measure(folder: Path, client: loops.Sender) -> bool:
    """Measure what is missing, and seal the folder when that is all."""
    whole = runner.run(folder, connect_to(client), make_bar=quiet)
    if whole:
        report.finish(folder)
    return whole


def quiet(total: int, title: str) -> Silent:
    return Silent(total)


def make_run(folder: Path, made: Plan | None = None, **client: Any) -> Path:
    """A finished run."""
    evidence.create(folder, made or make_plan(), ABOUT)
    assert measure(folder, PlayingClient(**client))
    return folder


def chain_again(folder: Path) -> None:
    """What a forger can do: link all lines anew, and hash all files."""
    environment = (folder / "environment.json").read_bytes()
    for name in evidence.LINES:
        path = folder / name
        chain = evidence.genesis(environment, name)
        made = b""
        for line in path.read_bytes().splitlines():
            fields = json.loads(line)
            fields.pop("chain", None)
            chain, linked = evidence.linked(chain, fields)
            made += linked
        path.write_bytes(made)
    hash_again(folder)


def hash_again(folder: Path) -> None:
    path = folder / "manifest.json"
    document = json.loads(path.read_bytes())
    for name in document["sha256"]:
        data = (folder / name).read_bytes()
        document["sha256"][name] = hashlib.sha256(data).hexdigest()
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The files of a small run that was finished, by name."""
    folder = tmp_path_factory.mktemp("evidence") / "run"
    make_run(folder, make_plan(requests=2, new_tokens=2))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, finished: Mapping[str, bytes]) -> Path:
    """A copy of that run, to be changed."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, data in finished.items():
        (copy / name).write_bytes(data)
    return copy


@pytest.fixture
def tools() -> Any:
    """The functions above, for tests in other files."""
    return SimpleNamespace(
        Client=PlayingClient,
        connect=connect_to,
        plan=make_plan,
        measure=measure,
        run=make_run,
        chain_again=chain_again,
        hash_again=hash_again,
        about=ABOUT,
        quiet=quiet,
    )
