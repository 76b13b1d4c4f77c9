"""The thread that runs a model, and the jobs that it is given."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from queue import SimpleQueue
from typing import Literal, Protocol

from labkit.errors import LabError
from labkit.generation import Clock, Token
from labkit.serving.interface import (
    Done,
    Event,
    Failed,
    Load,
    Observer,
    Queued,
    Served,
    Started,
    Status,
    Timeline,
)
from labkit.serving.protocol import GenerateRequest, Refusal

RETRY_AFTER_S = 1

logger = logging.getLogger(__name__)


class Backend(Served, Protocol):
    """A model that one thread runs, one request after the other."""

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end an answer."""
        ...

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        """New ids as they are known, and None where work goes on without.

        It is only ever called, run and closed on one thread.
        """
        ...


class Job:
    """A request on its way, shared by its reader and the worker."""

    def __init__(
        self, request: GenerateRequest, queued_ns: int, deadline_ns: int
    ) -> None:
        self.request = request
        self.deadline_ns = deadline_ns
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.timeline = Timeline(len(request.prompt_ids), queued_ns)
        self.wish: Literal["cancel", "stop"] | None = None

    def ending(self, now_ns: int) -> Done | Failed | None:
        """The event that is to end it now, if any is."""
        if self.wish == "stop":
            return Done(now_ns, "stop")
        if self.wish == "cancel":
            return Failed(now_ns, _cancelled())
        if now_ns >= self.deadline_ns:
            return Failed(now_ns, _too_late())
        return None


class Worker:
    """The thread's side. It knows nothing of the engine, so that one that
    nobody holds any more is collected, and its model with it.

    Whoever takes a job out of `_waiting`, under the lock, is the only one to
    end it. So each ends once.
    """

    def __init__(
        self, load: Callable[[], Backend], max_waiting: int, clock: Clock
    ) -> None:
        self.status = Status("loading")
        self.settled = threading.Event()
        self.backend: Backend | None = None
        self.observers: tuple[Observer, ...] = ()
        self._load = load
        self._max_waiting = max_waiting
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._closing = False
        self._interrupted = False
        # Reentrant: the collector may call `close` on a thread that has it.
        self._changed = threading.Condition(threading.RLock())

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
            while (job := self._next()) is not None:
                self._work(self.backend, job)

    def load(self) -> Load:
        with self._changed:
            return Load(int(self._running is not None), len(self._waiting))

    def submit(self, job: Job) -> None:
        with self._changed:
            if self._closing:
                raise shutting_down()
            ahead = len(self._waiting) + (self._running is not None)
            if ahead > self._max_waiting:
                raise _full(ahead)
            self._emit(job, Queued(job.timeline.queued_ns, ahead))
            self._waiting.append(job)
            self._changed.notify()

    def end(self, job: Job, wish: Literal["cancel", "stop"]) -> None:
        """End a job that waits now, and one that runs at its next token."""
        with self._changed:
            job.wish = job.wish or wish
            self._end_waiting()

    def close(self) -> None:
        """Take no more jobs, and end after the one that runs.

        The garbage collector may call this in the middle of anything else,
        so it does nothing that could wait for a lock of somebody's.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()

    def refuse_waiting(self) -> None:
        """Fail every job that waits."""
        with self._changed:
            while self._waiting:
                job = self._waiting.popleft()
                self._emit(job, Failed(self._clock(), shutting_down()))

    def interrupt(self) -> None:
        """Let the job that runs fail at its next token."""
        self._interrupted = True

    def _next(self) -> Job | None:
        with self._changed:
            self._running = None
            while True:
                if self._closing:
                    self.refuse_waiting()
                    return None
                self._end_waiting()
                if self._waiting:
                    self._running = self._waiting.popleft()
                    return self._running
                self._changed.wait()

    def _work(self, backend: Backend, job: Job) -> None:
        try:
            queued_ns = job.timeline.queued_ns
            self._emit(job, Started(self._clock(), queued_ns))
            ending = self._generate(backend, job)
        except BaseException:
            # The worker outlives whatever a backend raises; the client
            # learns that it failed, the log learns why.
            logger.exception("generation failed")
            ending = Failed(self._clock(), _generation_failed())
        self._emit(job, ending)

    def _generate(self, backend: Backend, job: Job) -> Done | Failed:
        token = None
        with closing(backend.steps(job.request)) as steps:
            for step in steps:
                ending = self._ending(job)
                if ending is not None:
                    return ending
                if step is not None:
                    token = step
                    self._emit(job, Token(token, self._clock()))
        ended = job.request.stop_at_end and token in backend.end_ids
        return Done(self._clock(), "stop" if ended else "length")

    def _ending(self, job: Job) -> Done | Failed | None:
        if self._interrupted:
            return Failed(self._clock(), shutting_down())
        with self._changed:
            self._end_waiting()
        return job.ending(self._clock())

    def _end_waiting(self) -> None:
        """End those that wait and should not; the lock is held."""
        now = self._clock()
        for job in tuple(self._waiting):
            ending = job.ending(now)
            if ending is not None:
                self._waiting.remove(job)
                self._emit(job, ending)

    def _emit(self, job: Job, event: Event) -> None:
        job.events.put(event)
        for observer in self.observers:
            try:
                observer(job.timeline, event)
            except Exception:
                logger.exception("an observer of the engine failed")
        job.timeline.add(event)


def _full(ahead: int) -> Refusal:
    return Refusal(
        429,
        "queue_full",
        f"{ahead} requests run or wait already; ask again in a moment.",
        retry_after_s=RETRY_AFTER_S,
    )


def _cancelled() -> Refusal:
    return Refusal(
        499, "cancelled", "The request was cancelled; send it again."
    )


def _too_late() -> Refusal:
    return Refusal(
        504,
        "deadline_exceeded",
        "The answer took longer than this server allows; ask for fewer "
        "tokens, or again when it is less busy.",
    )


def shutting_down() -> Refusal:
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
