"""One generation at a time on one model.

A single worker thread loads the model and is the only one to run it; the
threads of the HTTP server queue requests and read their events. A lock
around the model would keep two generations apart as well, but then each
server thread would run the model in turn, and PyTorch keeps a pool of
arithmetic threads and scratch memory for every thread that calls it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator

from labkit.errors import LabError
from labkit.generation import Clock
from labkit.serving.interface import (
    Done,
    Event,
    Failed,
    Load,
    Observer,
    Served,
    Status,
)
from labkit.serving.protocol import GenerateRequest, Refusal
from labkit.serving.worker import RETRY_AFTER_S, Backend, Job, Worker

MAX_WAITING = 32
DEADLINE_S = 120.0
INTERRUPT_S = 5.0
"""How long `close` waits for a generation that it has interrupted."""


class SingleSlotEngine:
    """Answers one request at a time, in order of arrival.

    Loading begins at once on a thread of the engine's own. At most
    `max_waiting` requests wait for their turn; one that has not ended
    `deadline_s` seconds after it was queued fails. `close` ends the thread;
    so does letting go of the engine. It is an `interface.Engine`.
    """

    def __init__(
        self,
        load: Callable[[], Backend],
        *,
        max_waiting: int = MAX_WAITING,
        deadline_s: float = DEADLINE_S,
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self._worker = Worker(load, max_waiting, clock)
        self._deadline_ns = round(deadline_s * 1e9)
        self._clock = clock
        self._thread = threading.Thread(
            target=self._worker.run, name="labkit-engine", daemon=True
        )
        self._thread.start()
        self._close = weakref.finalize(self, self._worker.close)

    @property
    def status(self) -> Status:
        """Where it stands."""
        return self._worker.status

    @property
    def load(self) -> Load:
        """How many requests it has."""
        return self._worker.load()

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Return when the model is loaded; LabError if that fails."""
        if not self._worker.settled.wait(timeout_s):
            raise LabError(
                f"The model was not loaded within {timeout_s} s; "
                "wait longer, or look at the memory that is left."
            )
        if self.status.state == "failed":
            raise LabError(self.status.problem)

    def backend(self) -> Served:
        """The loaded model; refused with 503 while there is none."""
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

    def submit(self, request: GenerateRequest) -> _Stream:
        """Queue a checked request; see `interface.Engine`."""
        self.backend()
        now = self._clock()
        job = Job(request, now, now + self._deadline_ns)
        self._worker.submit(job)
        return _Stream(job, self._worker)

    def watch(self, observer: Observer) -> None:
        """Tell `observer` of every event of requests yet to come."""
        self._worker.observers = (*self._worker.observers, observer)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Refuse what waits, let what runs end; whether it did in time.

        What still runs after `timeout_s` is interrupted at its next token.
        A thread that loads, or is stuck in one step, cannot be interrupted:
        when this returns False it still runs, and PyTorch aborts a process
        that ends under it. Leave such a process by `os._exit`.
        """
        self._close()
        self._worker.refuse_waiting()
        self._thread.join(timeout_s)
        if self._thread.is_alive() and self.status.state == "ready":
            self._worker.interrupt()
            self._thread.join(INTERRUPT_S if timeout_s else 0.0)
        return not self._thread.is_alive()


class _Stream:
    """An `interface.Stream`, for the reader's side of a job."""

    def __init__(self, job: Job, worker: Worker) -> None:
        self._job = job
        self._worker = worker

    @property
    def request(self) -> GenerateRequest:
        return self._job.request

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self._job.events.get()
            yield event
            if isinstance(event, Done | Failed):
                return

    def cancel(self) -> None:
        self._worker.end(self._job, "cancel")

    def stop(self) -> None:
        self._worker.end(self._job, "stop")
