"""One generation at a time on one model.

A single worker thread loads the model and is the only one to run it; the
threads of the HTTP server hand it jobs through a queue and wait. A lock
around the model would keep two generations apart as well, but then each
server thread would run the model in turn, and PyTorch keeps a pool of
arithmetic threads and scratch memory for every thread that calls it.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal, Protocol

from labkit.errors import LabError
from labkit.serving.protocol import Refusal

RETRY_AFTER_S = 1

logger = logging.getLogger(__name__)


class Generation(Protocol):
    """What a backend returns: the new ids, and what they took."""

    @property
    def ids(self) -> tuple[int, ...]: ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def seconds(self) -> float: ...


class Backend(Protocol):
    """A loaded model with its tokenizer.

    `generate` is only ever called from one thread. `encode` and `decode`
    may run beside it, on other threads, but never two of them at once.
    """

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> int:
        """Most tokens that prompt and output may have together."""
        ...

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def generate(
        self, prompt_ids: Sequence[int], max_new_tokens: int
    ) -> Generation: ...


@dataclass(frozen=True)
class Completion:
    """An answer: `seconds` is the time inside `Backend.generate`.

    `queue_seconds` is the time from `Engine.generate` until that began.
    """

    text: str
    ids: tuple[int, ...]
    prompt_tokens: int
    queue_seconds: float
    seconds: float


@dataclass(frozen=True)
class Status:
    """Where the engine stands; `problem` is one sentence when it failed."""

    state: Literal["loading", "ready", "failed"]
    problem: str = ""


@dataclass(frozen=True)
class _Job:
    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    queued_ns: int
    result: Future[Completion]


class _Worker:
    """The thread's side. It knows nothing of `Engine`, so that an engine
    that nobody holds any more is collected, and its model with it."""

    def __init__(self, load: Callable[[], Backend]) -> None:
        self.status = Status("loading")
        self.settled = threading.Event()
        self.backend: Backend | None = None
        self.tokenizer_lock = threading.Lock()
        self._load = load
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = False
        self._closing_lock = threading.Lock()

    def run(self) -> None:
        try:
            self.backend = self._load()
            self.status = Status("ready")
        except LabError as error:
            logger.error("%s", error)
            self.status = Status("failed", str(error))
        except BaseException:
            logger.exception("the model could not be loaded")
            self.status = Status(
                "failed",
                "The model could not be loaded; the server's log says why.",
            )
        self.settled.set()
        if self.backend is not None:
            self._work(self.backend)

    def submit(self, job: _Job) -> None:
        with self._closing_lock:
            if self._closing:
                raise _shutting_down()
            self._jobs.put(job)

    def close(self) -> None:
        """End after the job that runs; those that wait are refused."""
        with self._closing_lock:
            self._closing = True
            self._jobs.put(None)

    def _work(self, backend: Backend) -> None:
        while (job := self._jobs.get()) is not None:
            if self._closing:
                job.result.set_exception(_shutting_down())
                continue
            try:
                job.result.set_result(self._complete(backend, job))
            except BaseException:
                # The worker outlives whatever a backend raises; the client
                # learns that it failed, the log learns why.
                logger.exception("generation failed")
                job.result.set_exception(_generation_failed())

    def _complete(self, backend: Backend, job: _Job) -> Completion:
        queue_seconds = (time.perf_counter_ns() - job.queued_ns) / 1e9
        done = backend.generate(job.prompt_ids, job.max_new_tokens)
        with self.tokenizer_lock:
            text = backend.decode(done.ids)
        return Completion(
            text, done.ids, done.prompt_tokens, queue_seconds, done.seconds
        )


class Engine:
    """A model that answers one request at a time, in order of arrival.

    Loading begins at once on a thread of the engine's own. Every method may
    be called from any thread. `close` ends the thread; so does letting go
    of the engine.
    """

    def __init__(self, load: Callable[[], Backend]) -> None:
        self._worker = _Worker(load)
        self._thread = threading.Thread(
            target=self._worker.run, name="labkit-engine", daemon=True
        )
        self._thread.start()
        self._close = weakref.finalize(self, self._worker.close)

    @property
    def status(self) -> Status:
        return self._worker.status

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Return when the model is loaded; LabError if that fails."""
        if not self._worker.settled.wait(timeout_s):
            raise LabError(
                f"The model was not loaded within {timeout_s} s; "
                "wait longer, or look at the memory that is left."
            )
        if self.status.state == "failed":
            raise LabError(self.status.problem)

    def backend(self) -> Backend:
        """The loaded model, to read its name, context and vocabulary.

        Refused with 503 while there is none.
        """
        backend = self._worker.backend
        if backend is not None:
            return backend
        status = self.status
        if status.state == "failed":
            raise Refusal(503, "load_failed", status.problem)
        raise Refusal(
            503,
            "not_ready",
            "The model is still loading; ask again in a moment.",
            retry_after_s=RETRY_AFTER_S,
        )

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; does not wait for a generation that runs."""
        backend = self.backend()
        with self._worker.tokenizer_lock:
            return backend.encode(text)

    def generate(
        self, prompt_ids: tuple[int, ...], max_new_tokens: int
    ) -> Completion:
        """Wait for a turn, and then for the answer.

        Refused with 503 while there is no model and when the engine closes,
        and with 500 when the backend raises.
        """
        self.backend()
        queued_ns = time.perf_counter_ns()
        job = _Job(prompt_ids, max_new_tokens, queued_ns, Future())
        self._worker.submit(job)
        return job.result.result()

    def close(self, timeout_s: float = 5.0) -> bool:
        """Refuse what waits, let what runs end; whether it did in time.

        A thread that loads or generates cannot be interrupted. When this
        returns False it still runs, and PyTorch aborts a process that ends
        under it: leave such a process by `os._exit`.
        """
        self._close()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def _shutting_down() -> Refusal:
    return Refusal(
        503,
        "shutting_down",
        "The server is stopping; start it again and repeat the request.",
    )


def _generation_failed() -> Refusal:
    return Refusal(
        500,
        "generation_failed",
        "The model failed on this request; the server's log says why, and "
        "other requests can still be sent.",
    )
