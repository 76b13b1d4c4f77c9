"""Sends requests in a closed or an open loop.

A thread for each request in flight. Whoever takes notes is told of every
request as it happens: `recorder.Recorder` writes them down, `drive` keeps
them in memory.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from labkit.errors import LabError
from labkit.loadtest.plan import Phase
from labkit.loadtest.records import Arrival, Record, Request
from labkit.progress import Progress

JOIN_S = 0.1
"""How often the main thread looks up, so that Ctrl-C reaches it."""


class Sender(Protocol):
    """What `client.Client` does."""

    def send(
        self,
        request: Request,
        *,
        due_ns: int | None = None,
        on_sent: Callable[[str, int], object] | None = None,
        on_arrival: Callable[[str, Arrival], object] | None = None,
    ) -> Record: ...


class Sendable(Protocol):
    """A request that is to be sent; `plan.Planned` is one.

    An open loop wants it `offset_ns` after the first; progress is told of
    those that are measured.
    """

    @property
    def phase(self) -> Phase: ...

    @property
    def offset_ns(self) -> int | None: ...

    def to_send(self) -> Request: ...


S = TypeVar("S", bound=Sendable)
S_contra = TypeVar("S_contra", bound=Sendable, contravariant=True)


class Notes(Protocol[S_contra]):
    """Who is told what happens, on the threads that send: be quick."""

    def sent(self, request: str, time_ns: int) -> None: ...

    def arrived(self, request: str, arrival: Arrival) -> None: ...

    def finished(self, record: Record, planned: S_contra) -> None: ...

    def check(self) -> None:
        """On the main thread, now and then: raise what went wrong."""


@dataclass(frozen=True)
class Serving:
    """A server that is ready; `pid` and `threads` where they are known."""

    client: Sender
    pid: int | None = None
    threads: int | None = None


class Load(Generic[S]):
    """Sends requests, in one loop after the other.

    `stop` ends it: no further request is sent, those in flight end. An
    `error` of a client stops it as well.
    """

    def __init__(
        self,
        notes: Notes[S],
        progress: Progress,
        stop: threading.Event,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.error: BaseException | None = None
        self._notes = notes
        self._progress = progress
        self._stop = stop
        self._clock = clock
        self._lock = threading.Lock()
        self._in_flight = 0
        self._failed = 0

    @property
    def stopped(self) -> bool:
        """Whether it was asked to stop."""
        return self._stop.is_set()

    def closed(
        self,
        sender: Sender,
        requests: Sequence[S],
        clients: int,
        think_s: float = 0.0,
    ) -> None:
        """Each of N clients sends its next request when its last is over,
        and it has thought for a while."""
        waiting = deque(requests)
        together = threading.Barrier(min(clients, max(1, len(requests))))

        def client() -> None:
            with suppress(threading.BrokenBarrierError):
                together.wait()
            pause_s = 0.0
            while waiting and not self._stop.wait(pause_s):
                try:
                    planned = waiting.popleft()
                except IndexError:
                    return
                self._send(sender, planned, None)
                pause_s = think_s

        threads: list[threading.Thread] = []
        for _ in range(together.parties):
            if not self._begin(threads, client):
                together.abort()
                break
        self._wait_for(threads)

    def open(
        self,
        sender: Sender,
        requests: Sequence[S],
        most_in_flight: int | None,
    ) -> None:
        """Each when it is due, counted from now, whatever became of others.

        With `most_in_flight`, one that is due waits until there is room;
        when it was due stays as it was.
        """
        room = threading.Semaphore(most_in_flight or len(requests) or 1)
        threads: list[threading.Thread] = []

        def send(planned: S, due_ns: int) -> None:
            try:
                self._send(sender, planned, due_ns)
            finally:
                room.release()

        for planned, due_ns in _due(requests, self._clock()):
            if not self._reach(due_ns) or not self._take(room):
                break
            threads = [each for each in threads if each.is_alive()]
            if not self._begin(threads, send, planned, due_ns):
                break
        self._wait_for(threads)

    def _begin(
        self,
        threads: list[threading.Thread],
        target: Callable[..., None],
        *arguments: object,
    ) -> bool:
        """Start one more; where there can be none, the run is stopped."""
        try:
            threads.append(_start(target, *arguments))
        except RuntimeError as error:
            self.error = LabError(
                f"This machine starts no thread beside {len(threads)} others"
                f" ({error}): ask for fewer clients or a lower rate."
            )
            self._stop.set()
            return False
        return True

    def _reach(self, due_ns: int) -> bool:
        """Wait until a moment; False when the run is stopped before."""
        while (left := due_ns - self._clock()) > 0:
            if self._stop.wait(left / 1e9):
                return False
        return not self._stop.is_set()

    def _take(self, room: threading.Semaphore) -> bool:
        while not room.acquire(timeout=JOIN_S):
            if self._stop.is_set():
                return False
        return True

    def _send(self, sender: Sender, planned: S, due_ns: int | None) -> None:
        with self._lock:
            self._in_flight += 1
        try:
            record = sender.send(
                planned.to_send(),
                due_ns=due_ns,
                on_sent=self._notes.sent,
                on_arrival=self._notes.arrived,
            )
        except BaseException as error:
            # Not the server's doing: it ends the run, on the main thread.
            self.error = error
            self._stop.set()
            return
        if self._stop.is_set() and not record.ok:
            # Ctrl-C reaches a server in the same terminal as well: whatever
            # fails from then on is given up, and measured by the next run.
            return
        self._notes.finished(record, planned)
        with self._lock:
            self._in_flight -= 1
            self._failed += not record.ok
            label = f"{self._in_flight} in flight, {self._failed} failed"
            if planned.phase == "measured":
                self._progress.advance(label)

    def _wait_for(self, threads: Sequence[threading.Thread]) -> None:
        """Until all have ended; then an error of one of them is raised."""
        for thread in threads:
            while thread.is_alive():
                thread.join(JOIN_S)
                self._notes.check()
        if self.error is not None:
            raise self.error


def _due(requests: Sequence[S], start_ns: int) -> list[tuple[S, int]]:
    """Each with its moment, in order: the first is due at once."""
    ordered = sorted(requests, key=lambda each: each.offset_ns or 0)
    first = ordered[0].offset_ns or 0 if ordered else 0
    return [
        (each, start_ns + (each.offset_ns or 0) - first) for each in ordered
    ]


def _start(
    target: Callable[..., None], *arguments: object
) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread
