"""One generation at a time, and every request ends exactly once."""

from __future__ import annotations

import gc
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.generation import Token
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.interface import (
    Done,
    Event,
    Failed,
    Load,
    Queued,
    Started,
    Stream,
    Timeline,
)
from labkit.serving.protocol import GenerateRequest, Refusal

TIMEOUT_S = 10
Make = Callable[..., SingleSlotEngine]


@pytest.fixture
def make(backend: Any) -> Iterator[Make]:
    """Makes ready engines around the scripted backend."""
    made: list[SingleSlotEngine] = []

    def build(**options: Any) -> SingleSlotEngine:
        made.append(SingleSlotEngine(lambda: backend, **options))
        made[-1].wait_until_ready(TIMEOUT_S)
        return made[-1]

    yield build
    backend.gate.set()
    if backend.turns is not None:
        backend.turns.release(1000)
    for engine in made:
        assert engine.close()


@pytest.fixture
def engine(make: Make) -> SingleSlotEngine:
    return make()


def submit(
    engine: SingleSlotEngine, prompt: bytes = b"a", count: int = 1
) -> Stream:
    return engine.submit(GenerateRequest(tuple(prompt), count))


def ids(events: list[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def code_of(events: list[Event]) -> str:
    """The code of the failure that ends the events."""
    assert isinstance(events[-1], Failed)
    assert not any(isinstance(event, Done | Failed) for event in events[:-1])
    return events[-1].refusal.code


def refusal_of(engine: SingleSlotEngine) -> Refusal:
    with pytest.raises(Refusal) as caught:
        submit(engine)
    return caught.value


def test_the_events_of_a_request(make: Make) -> None:
    ticks = itertools.count(100, 10)
    engine = make(clock=lambda: next(ticks))
    events = list(submit(engine, b"a", 3))
    kinds = [type(event) for event in events]
    assert kinds == [Queued, Started, Token, Token, Token, Done]
    assert ids(events) == [98, 99, 100]
    times = [event.time_ns for event in events]
    assert times == sorted(set(times))
    assert events[0] == Queued(times[0], 0)
    assert isinstance(events[1], Started)
    assert events[1].queued_ns == times[0]
    assert isinstance(events[-1], Done)
    assert events[-1].reason == "length"


def test_an_end_id_ends_what_may_stop(
    engine: SingleSlotEngine, backend: Any
) -> None:
    backend.answers = {b"a": b"x\x04y"}
    for count in (3, 2):
        stops = engine.submit(GenerateRequest((97,), count, None, True))
        *_, last, done = stops
        assert isinstance(last, Token)
        assert isinstance(done, Done)
        assert (last.id, done.reason) == (4, "stop")
    *_, done = submit(engine, b"a", 3)
    assert isinstance(done, Done)
    assert done.reason == "length"


def test_many_at_once_never_meet(make: Make, backend: Any) -> None:
    engine = make(max_waiting=300)
    prompts = list(range(100)) * 2

    def ask(first: int) -> list[int]:
        return ids(list(submit(engine, bytes([first]), 4)))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, prompts))
    for first, answer in zip(prompts, answers, strict=True):
        assert answer == list(range(first + 1, first + 5))
    assert backend.overlaps == 0


def test_one_thread_alone_loads_and_runs_the_model(backend: Any) -> None:
    threads = set()
    steps = backend.steps

    def load() -> Any:
        threads.add(threading.get_ident())
        return backend

    def noting(request: GenerateRequest) -> Any:
        for step in steps(request):
            threads.add(threading.get_ident())
            yield step

    backend.steps = noting
    engine = SingleSlotEngine(load)
    engine.wait_until_ready(TIMEOUT_S)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: list(submit(engine)), range(20)))
    assert len(threads) == 1
    assert engine.close()


def test_a_failure_is_told_and_logged(
    engine: SingleSlotEngine, caplog: pytest.LogCaptureFixture
) -> None:
    events = list(submit(engine, b"boom"))
    assert code_of(events) == "generation_failed"
    assert "secret" not in str(events[-1])
    assert "a secret of the server" in caplog.text
    assert ids(list(submit(engine))) == [98]


def test_a_backend_that_exits_does_not_end_the_engine(
    engine: SingleSlotEngine, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(request: Any) -> Any:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(backend, "steps", leave)
        assert code_of(list(submit(engine))) == "generation_failed"
    assert ids(list(submit(engine))) == [98]


def test_a_full_queue_refuses(make: Make, backend: Any) -> None:
    engine = make(max_waiting=2)
    backend.gate.clear()
    streams = [submit(engine) for _ in range(3)]
    assert backend.started.wait(TIMEOUT_S)
    assert engine.load == Load(running=1, waiting=2)
    refusal = refusal_of(engine)
    assert (refusal.status, refusal.code) == (429, "queue_full")
    assert refusal.retry_after_s is not None
    backend.gate.set()
    aheads = [next(iter(stream)) for stream in streams]
    assert [getattr(event, "ahead", None) for event in aheads] == [0, 1, 2]
    for stream in streams:
        assert isinstance(list(stream)[-1], Done)
    assert ids(list(submit(engine))) == [98]


def test_a_slow_reader_holds_up_nobody(
    engine: SingleSlotEngine,
) -> None:
    unread = [submit(engine, b"a", 200) for _ in range(5)]
    assert len(ids(list(submit(engine, b"b", 200)))) == 200
    for stream in unread:
        assert len(ids(list(stream))) == 200


def test_a_cancel_is_noticed_at_the_next_token(
    engine: SingleSlotEngine, backend: Any
) -> None:
    backend.turns = threading.Semaphore(2)
    stream = submit(engine, b"a", 50)
    events = iter(stream)
    before = [next(events) for _ in range(4)]
    assert ids(before) == [98, 99]
    stream.cancel()
    stream.cancel()
    backend.turns.release()
    assert code_of(list(events)) == "cancelled"
    backend.turns = None
    assert ids(list(submit(engine))) == [98]
    assert backend.open == 0


def test_a_cancel_is_noticed_during_prefill(
    engine: SingleSlotEngine, backend: Any
) -> None:
    backend.turns = threading.Semaphore(1)
    stream = submit(engine, b"a" * 50, 5)
    events = iter(stream)
    assert isinstance([next(events), next(events)][-1], Started)
    stream.cancel()
    backend.turns.release(1)
    rest = list(events)
    assert code_of(rest) == "cancelled"
    assert ids(rest) == []


def test_a_cancel_of_what_waits_is_immediate(
    engine: SingleSlotEngine, backend: Any
) -> None:
    backend.gate.clear()
    runs, waits = submit(engine), submit(engine)
    assert backend.started.wait(TIMEOUT_S)
    waits.cancel()
    assert code_of(list(waits)) == "cancelled"
    assert engine.load == Load(1, 0)
    backend.gate.set()
    assert ids(list(runs)) == [98]
    assert len(backend.requests) == 1


def test_a_stop_is_a_good_end(engine: SingleSlotEngine, backend: Any) -> None:
    backend.turns = threading.Semaphore(1)
    stream = submit(engine, b"a", 50)
    events = iter(stream)
    [next(events) for _ in range(3)]
    stream.stop()
    stream.cancel()
    backend.turns.release(1)
    last = list(events)[-1]
    assert isinstance(last, Done)
    assert last.reason == "stop"


def test_deadlines_hold_for_what_runs_and_what_waits(
    make: Make, backend: Any
) -> None:
    now = [0]
    engine = make(deadline_s=1.0, clock=lambda: now[0])
    backend.turns = threading.Semaphore(0)
    runs = submit(engine, b"a", 50)
    assert backend.started.wait(TIMEOUT_S)
    now[0] = 500_000_000
    waits, lasts = submit(engine), submit(engine)
    now[0] = 1_200_000_000
    backend.turns.release()
    assert code_of(list(runs)) == "deadline_exceeded"
    now[0] = 1_499_999_999
    backend.turns.release()
    assert ids(list(waits)) == [98]
    now[0] = 1_500_000_000
    backend.turns.release()
    assert code_of(list(lasts)) == "deadline_exceeded"


def test_observers_see_every_event_with_what_was_before(
    engine: SingleSlotEngine, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[int, Event]] = []

    def note(before: Timeline, event: Event) -> None:
        seen.append((before.new_tokens, event))

    def fail(before: Timeline, event: Event) -> None:
        raise ValueError("an observer's own")

    engine.watch(fail)
    engine.watch(note)
    events = list(submit(engine, b"a", 2))
    assert engine.close()
    assert [event for _, event in seen] == events
    assert [count for count, _ in seen] == [0, 0, 0, 1, 2]
    assert "an observer's own" in caplog.text


def test_nothing_is_answered_while_the_model_loads(backend: Any) -> None:
    loaded = threading.Event()

    def load() -> Any:
        assert loaded.wait(TIMEOUT_S)
        return backend

    engine = SingleSlotEngine(load)
    assert engine.status.state == "loading"
    refusal = refusal_of(engine)
    assert (refusal.status, refusal.code) == (503, "not_ready")
    assert refusal.retry_after_s is not None
    with pytest.raises(LabError, match="not loaded within"):
        engine.wait_until_ready(0)
    loaded.set()
    engine.wait_until_ready(TIMEOUT_S)
    assert engine.status.state == "ready"
    assert ids(list(submit(engine))) == [98]
    assert engine.close()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (LabError("No model here; fetch it."), "No model here; fetch it."),
        (OSError("a secret of the server"), "The model could not be loaded"),
    ],
)
def test_a_model_that_does_not_load(
    error: Exception, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> Any:
        raise error

    engine = SingleSlotEngine(load)
    with pytest.raises(LabError, match=sentence):
        engine.wait_until_ready(TIMEOUT_S)
    assert engine.status.state == "failed"
    refusal = refusal_of(engine)
    assert (refusal.status, refusal.code) == (503, "load_failed")
    assert sentence in refusal.message
    assert "secret" not in refusal.message
    assert refusal.retry_after_s is None
    assert str(error) in caplog.text
    assert caplog.records[0].levelno == logging.ERROR
    assert engine.close()


def test_close_finishes_what_runs_and_refuses_what_waits(
    make: Make, backend: Any
) -> None:
    engine = make()
    backend.gate.clear()
    runs, waits = submit(engine), submit(engine)
    assert backend.started.wait(TIMEOUT_S)
    with ThreadPoolExecutor(1) as pool:
        closed = pool.submit(engine.close, TIMEOUT_S)
        assert code_of(list(waits)) == "shutting_down"
        backend.gate.set()
        assert closed.result(TIMEOUT_S)
    assert ids(list(runs)) == [98]
    assert refusal_of(engine).code == "shutting_down"


def test_close_interrupts_what_takes_too_long(
    make: Make, backend: Any
) -> None:
    engine = make()
    backend.turns = threading.Semaphore(0)
    runs = submit(engine, b"a", 50)
    assert backend.started.wait(TIMEOUT_S)
    assert engine.close(timeout_s=0) is False
    backend.turns.release()
    assert code_of(list(runs)) == "shutting_down"
    assert engine.close()


def test_an_engine_that_nobody_holds_lets_go_of_its_model(
    backend: Any,
) -> None:
    made = [backend]
    engine = SingleSlotEngine(made.pop)
    engine.wait_until_ready(TIMEOUT_S)
    list(submit(engine))
    thread = engine._thread
    model = weakref.ref(engine.backend())
    assert model() is backend
    del engine
    gc.collect()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
