"""A scripted server, time lines turned into records, and a tiny model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import settings

from labkit.loadtest import sse
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.openai_target import OpenAITarget
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Arrival, Record
from labkit.loadtest.scripted import Player
from labkit.loadtest.targets import Fault, Target
from labkit.loadtest.timelines import Dialect, TimeLine
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.protocol import GenerateRequest
from labkit.serving.server import BackgroundServer

Serve = Callable[..., Player]
Replay = Callable[[TimeLine, Target], Record]
settings.register_profile("labkit", deadline=None, database=None)
settings.load_profile("labkit")

TIMEOUT_S = 30
MS = 1_000_000


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Play a script from a thread of this process, until the test ends."""
    with _stopping() as start:
        yield start


@contextmanager
def _stopping() -> Iterator[Serve]:
    stopped = threading.Event()
    threads: list[threading.Thread] = []

    def start(script: Sequence[TimeLine], **options: int) -> Player:
        player = Player(script, **options)
        threads.append(threading.Thread(target=player.run, args=(stopped,)))
        threads[-1].start()
        return player

    yield start
    stopped.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


@pytest.fixture(
    params=["lab", "completions", "usage at the end", "chat"],
)
def target_at(request: pytest.FixtureRequest) -> Callable[[str], Target]:
    """Each protocol in turn: a target for the address of a server."""
    name = request.param
    if name == "lab":
        return LabTarget
    if name == "chat":
        return lambda url: OpenAITarget(url, "scripted", chat=True)
    each = name == "completions"
    return lambda url: OpenAITarget(url, "scripted", usage_in_each=each)


@pytest.fixture
def target(target_at: Callable[[str], Target]) -> Target:
    """Each protocol in turn, where no server is needed."""
    return target_at("http://127.0.0.1:9")


@pytest.fixture
def replay() -> Replay:
    """The record of a time line whose stamps are exact, without a socket.

    The request is sent at 0, and bytes arrive when the time line says.
    """
    return record_of


def record_of(line: TimeLine, target: Target) -> Record:
    reading = target.reading()
    arrivals: list[Arrival] = []
    now = 0

    def chunks() -> Iterator[bytes]:
        nonlocal now
        body: Mapping[str, object] = {
            "stream_options": {
                "include_usage": True,
                "continuous_usage_stats": getattr(
                    target, "usage_in_each", False
                ),
            }
        }
        dialect = Dialect(target.path, body)
        for step in line.whole():
            now = round(step.at_ms * MS)
            if step.do in ("end", "cut", "reset", "hang"):
                return
            yield dialect.event(step, now)

    failure = None
    try:
        for name, data in sse.events(chunks()):
            arrival = reading.feed(name, data, now)
            arrivals += [arrival] if arrival else []
        reading.check()
    except Fault as fault:
        failure = fault.code
    return Record(
        "m000",
        sent_ns=0,
        end_ns=now,
        arrivals=tuple(arrivals),
        status=200,
        failure=failure,
        prompt_tokens=reading.prompt_tokens,
        new_tokens=reading.new_tokens,
        counted=reading.counted,
        queued_ns=reading.queued_ns,
        start_ns=reading.start_ns,
    )


@pytest.fixture
def assert_true_to() -> Callable[[Record, Played], None]:
    """What arrived is what was written, and never before it was."""
    return check_truth


def check_truth(record: Record, played: Played) -> None:
    assert record.request == played.request
    written = [write for write in played.writes if write.tokens]
    # Events that were written together, or met in the buffer, share a stamp.
    moments = [
        arrival.time_ns
        for arrival in record.arrivals
        for _ in range(arrival.tokens if arrival.kind == "token" else 0)
    ]
    sources = [w.write_ns for w in written for _ in range(w.tokens)]
    assert len(moments) == len(sources)
    for arrived_ns, written_ns in zip(moments, sources, strict=True):
        assert arrived_ns >= written_ns
    assert moments == sorted(moments)
    assert record.sent_ns <= played.read_ns
    if record.connected_ns is not None:
        assert record.sent_ns <= record.connected_ns <= played.read_ns


class TinyModel:
    """Ids of an answer count on from the last of the prompt; no text.

    `turns`, when there is one, is acquired before each token.
    """

    name = "tiny"
    context = 8192
    vocabulary = 49152
    end_ids: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.turns: threading.Semaphore | None = None

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("".join(each["content"] for each in messages))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + i % 26) for i in ids)

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        last = request.prompt_ids[-1]
        for k in range(request.max_new_tokens):
            if self.turns is not None:
                assert self.turns.acquire(timeout=TIMEOUT_S)
            time.sleep(0.0005)
            yield (last + 1 + k) % self.vocabulary


@pytest.fixture
def tiny() -> TinyModel:
    return TinyModel()


@pytest.fixture
def url(tiny: TinyModel) -> Iterator[str]:
    """The course's own server around the tiny model."""
    engine = SingleSlotEngine(lambda: tiny)
    engine.wait_until_ready(TIMEOUT_S)
    with BackgroundServer(create_app(engine)) as server:
        yield server.url
    assert engine.close()
