"""One generation at a time, and what happens when something fails."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.serving.engine import Completion, Engine
from labkit.serving.protocol import Refusal

TIMEOUT_S = 10


@pytest.fixture
def engine(backend: Any) -> Iterator[Engine]:
    made = Engine(lambda: backend)
    made.wait_until_ready(TIMEOUT_S)
    yield made
    backend.gate.set()
    assert made.close()


def refusal_of(engine: Engine, prompt: bytes = b"a") -> Refusal:
    with pytest.raises(Refusal) as caught:
        engine.generate(tuple(prompt), 1)
    return caught.value


def test_an_answer(engine: Engine) -> None:
    done = engine.generate((97,), 3)
    assert done.ids == (98, 99, 100)
    assert (done.text, done.prompt_tokens, done.seconds) == ("bcd", 1, 0.25)
    assert done.queue_seconds >= 0
    assert engine.encode("é") == [195, 169]


def test_many_at_once_never_meet(engine: Engine, backend: Any) -> None:
    prompts = list(range(100)) * 2

    def ask(first: int) -> Completion:
        return engine.generate((engine.encode(chr(first))[0],), 4)

    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(ask, prompts))
    for first, answer in zip(prompts, done, strict=True):
        assert answer.ids == tuple(range(first + 1, first + 5))
    assert backend.overlaps == 0


def test_one_thread_alone_loads_and_runs_the_model(backend: Any) -> None:
    threads = set()
    generate = backend.generate

    def load() -> Any:
        threads.add(threading.get_ident())
        return backend

    def noting(ids: Any, count: int) -> Any:
        threads.add(threading.get_ident())
        return generate(ids, count)

    backend.generate = noting
    engine = Engine(load)
    engine.wait_until_ready(TIMEOUT_S)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda first: engine.generate((first,), 1), range(20)))
    assert len(threads) == 1
    assert engine.close()


def test_a_failure_is_refused_and_logged(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = refusal_of(engine, b"boom")
    assert (refusal.status, refusal.code) == (500, "generation_failed")
    assert "secret" not in refusal.message
    assert "a secret of the server" in caplog.text
    assert engine.generate((97,), 1).text == "b"


def test_a_backend_that_exits_does_not_end_the_engine(
    engine: Engine, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(ids: Any, count: int) -> Any:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(backend, "generate", leave)
        assert refusal_of(engine).code == "generation_failed"
    assert engine.generate((97,), 1).text == "b"


def test_nothing_is_answered_while_the_model_loads(backend: Any) -> None:
    loaded = threading.Event()

    def load() -> Any:
        assert loaded.wait(TIMEOUT_S)
        return backend

    engine = Engine(load)
    assert engine.status.state == "loading"
    refusal = refusal_of(engine)
    assert (refusal.status, refusal.code) == (503, "not_ready")
    assert refusal.retry_after_s is not None
    with pytest.raises(LabError, match="not loaded within"):
        engine.wait_until_ready(0)
    loaded.set()
    engine.wait_until_ready(TIMEOUT_S)
    assert engine.status.state == "ready"
    assert engine.generate((97,), 1).text == "b"
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

    engine = Engine(load)
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
    backend: Any,
) -> None:
    engine = Engine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    backend.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        runs = pool.submit(engine.generate, (97,), 1)
        assert backend.started.wait(TIMEOUT_S)
        waits = pool.submit(engine.generate, (98,), 1)
        # The second is in the queue once the engine holds two jobs; it is
        # refused either there or at the door.
        assert engine.close(timeout_s=0) is False
        backend.gate.set()
        assert runs.result(TIMEOUT_S).text == "b"
        with pytest.raises(Refusal, match="stopping"):
            waits.result(TIMEOUT_S)
    assert engine.close()
    assert refusal_of(engine).code == "shutting_down"


def test_an_engine_that_nobody_holds_lets_go_of_its_model(
    backend: Any,
) -> None:
    made = [backend]
    engine = Engine(made.pop)
    engine.wait_until_ready(TIMEOUT_S)
    engine.generate((97,), 1)
    thread = engine._thread
    model = weakref.ref(engine.backend())
    assert model() is backend
    del engine
    gc.collect()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
