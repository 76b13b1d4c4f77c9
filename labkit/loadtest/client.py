"""Sends a request, blocks until its answer is over, and returns a Record.

Whoever sends has a thread for each request in flight: it sleeps in the
receive that is stamped, and no event loop has other work before it. What a
server does is data, never an exception.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType

from labkit.loadtest.exchange import Exchange, OnArrival, OnSent, Timeouts
from labkit.loadtest.records import Record, Request
from labkit.loadtest.targets import Target
from labkit.loadtest.wire import Clock, Connection, now_ns


class Client:
    """Talks to one target; any number of threads may send at once.

    With `keep_alive` connections are used again. `clock` gives ns.
    """

    def __init__(
        self,
        target: Target,
        timeouts: Timeouts | None = None,
        *,
        keep_alive: bool = False,
        clock: Clock = now_ns,
    ) -> None:
        self._target = target
        self._timeouts = timeouts or Timeouts()
        self._keep_alive = keep_alive
        self._clock = clock
        self._idle: deque[Connection] = deque()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def send(
        self,
        request: Request,
        *,
        due_ns: int | None = None,
        on_sent: OnSent | None = None,
        on_arrival: OnArrival | None = None,
    ) -> Record:
        """Send it now and read the answer to its end.

        `on_sent` gets the name of the request and `sent_ns`, `on_arrival`
        the name and each Arrival. Both run on this thread, between two
        reads: what takes long delays the next stamp.
        """
        exchange = Exchange(
            request, self._target, self._timeouts, self._clock, on_arrival
        )
        connection = exchange.run(self._reusable(), on_sent)
        if connection is not None and self._keep_alive:
            self._idle.append(connection)
        elif connection is not None:
            connection.close()
        return exchange.record(due_ns)

    def _reusable(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.wire.ended():
                return connection
            connection.close()
        return None
