"""One request on a connection, from sent to the end of its answer.

What a server does is data, never an exception: it becomes the failure of
the Record.
"""

from __future__ import annotations

import errno
import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from labkit.errors import LabError
from labkit.loadtest import sse
from labkit.loadtest.records import Arrival, Record, Request
from labkit.loadtest.targets import Fault, Reading, Target, message_of
from labkit.loadtest.wire import Clock, Connection, post

OnSent = Callable[[str, int], object]
OnArrival = Callable[[str, Arrival], object]

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_EVENTS = 250_000
MAX_REFUSAL_BYTES = 4096
READ_BYTES = 65536
OWN_LIMITS = frozenset(
    getattr(errno, name)
    for name in ("EMFILE", "ENFILE", "ENOBUFS", "EADDRNOTAVAIL", "WSAEMFILE")
    if hasattr(errno, name)
)
"""Errors of the client's own machine, no failure of the server."""
AFTER_LAST_S = 1.0
"""How long the end of a stream may come after its terminal event."""
LATE = frozenset({"timeout", "connection", "no_terminal_event", "bad_http"})
"""What no longer matters once the terminal event is in."""


@dataclass(frozen=True)
class Timeouts:
    """For the connection, the first byte of the answer, and everything.

    The first counts from sent, the second from when the request is written.
    """

    connect_s: float = 5.0
    first_byte_s: float = 60.0
    whole_s: float = 300.0


class Exchange:
    """One request and its answer."""

    def __init__(
        self,
        request: Request,
        target: Target,
        timeouts: Timeouts,
        clock: Clock,
        on_arrival: OnArrival | None,
    ) -> None:
        self._name = request.name
        self._address = target.address
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "X-Request-Id": request.name,
            **target.headers,
        }
        payload = json.dumps(target.body(request)).encode("ascii")
        # Nothing is left to be made between `sent_ns` and the first byte.
        self._bytes = post(target.address, target.path, headers, payload)
        self._timeouts = timeouts
        self._clock = clock
        self._on_arrival = on_arrival
        self._reading: Reading = target.reading()
        self._arrivals: list[Arrival] = []
        self._phase = "connecting"
        self._connected_ns: int | None = None
        self._status: int | None = None
        self._fault: Fault | None = None
        self._end_ns = 0
        self.sent_ns = 0

    def run(
        self, connection: Connection | None, on_sent: OnSent | None = None
    ) -> Connection | None:
        """Do it all; the connection, if another request can use it."""
        reusable = False
        try:
            if connection is None:
                connection = Connection(self._address, self._clock)
                self._leave(on_sent)
                self._open(connection)
            else:
                self._leave(on_sent)
            response = self._ask(connection)
            self._read(connection, response)
            reusable = response.isclosed() and not response.will_close
        except (OSError, ValueError, http.client.HTTPException) as error:
            _refuse_own_limit(error)
            self._fault = self._fault_of(error)
        except Fault as fault:
            self._fault = fault
        if not self.sent_ns:
            self._leave(on_sent)  # no such name, or no socket: it went nowhere
        self._finish(connection)
        if reusable or connection is None:
            return connection
        connection.close()
        return None

    def record(self, due_ns: int | None) -> Record:
        """What happened."""
        read, fault = self._reading, self._fault
        return Record(
            request=self._name,
            sent_ns=self.sent_ns,
            end_ns=self._end_ns,
            due_ns=due_ns,
            connected_ns=self._connected_ns,
            arrivals=tuple(self._arrivals),
            status=self._status,
            failure=fault.code if fault else None,
            message=fault.message if fault else "",
            prompt_tokens=read.prompt_tokens,
            new_tokens=read.new_tokens,
            counted=read.counted,
            queued_ns=read.queued_ns,
            start_ns=read.start_ns,
        )

    def _leave(self, on_sent: OnSent | None) -> None:
        """From here on it is sent."""
        self.sent_ns = self._clock()
        if on_sent is not None:
            on_sent(self._name, self.sent_ns)

    def _open(self, connection: Connection) -> None:
        patience_s = min(self._timeouts.connect_s, self._timeouts.whole_s)
        connection.open(self._after(patience_s))
        self._connected_ns = connection.connected_ns

    def _ask(self, connection: Connection) -> http.client.HTTPResponse:
        """Write the request and read the head of the answer."""
        self._phase = "waiting for the first byte"
        wire = connection.wire
        wire.deadline_ns = self._after(self._timeouts.whole_s)
        wire.send(self._bytes)
        first_byte_ns = int(self._timeouts.first_byte_s * 1e9)
        wire.deadline_ns = min(wire.deadline_ns, self._clock() + first_byte_ns)
        return connection.read_head()

    def _read(
        self, connection: Connection, response: http.client.HTTPResponse
    ) -> None:
        self._phase = "reading the answer"
        wire = connection.wire
        wire.deadline_ns = self._after(self._timeouts.whole_s)
        self._status = response.status
        if response.status != 200:
            raise Fault(f"http_{response.status}", _refusal(response))
        _check_head(response)
        try:
            for name, data in sse.events(_body(response)):
                arrival = self._reading.feed(name, data, wire.received_ns)
                self._note(arrival)
                if self._reading.done:
                    wire.deadline_ns = min(
                        wire.deadline_ns,
                        wire.received_ns + int(AFTER_LAST_S * 1e9),
                    )
        except sse.EventTooLarge:
            raise Fault("too_large", "an event is too large") from None

    def _note(self, arrival: Arrival | None) -> None:
        if arrival is None:
            return
        if len(self._arrivals) >= MAX_EVENTS:
            raise Fault("too_large", f"more than {MAX_EVENTS} events")
        self._arrivals.append(arrival)
        if self._on_arrival is not None:
            self._on_arrival(self._name, arrival)

    def _finish(self, connection: Connection | None) -> None:
        """Judge the answer, and say when it ended."""
        done = self._reading.done and self._reading.error is None
        if self._fault is None or (done and self._fault.code in LATE):
            self._fault = None
            try:
                self._reading.check()
            except Fault as fault:
                self._fault = fault
        ended = self._fault is None and connection is not None
        self._end_ns = (
            connection.wire.received_ns
            if ended and connection is not None
            else self._clock()
        )

    def _fault_of(self, error: Exception) -> Fault:
        if isinstance(error, TimeoutError):
            return Fault("timeout", self._phase)
        if isinstance(error, http.client.IncompleteRead):
            return Fault("no_terminal_event", "the stream was cut")
        if isinstance(error, OSError):
            return Fault("connection", f"{self._phase}: {error}")
        return Fault("bad_http", f"{self._phase}: {error!r}")

    def _after(self, seconds: float) -> int:
        return self.sent_ns + int(seconds * 1e9)


def _refuse_own_limit(error: Exception) -> None:
    """LabError when it is this machine that can open no more connections."""
    if isinstance(error, OSError) and error.errno in OWN_LIMITS:
        raise LabError(
            f"This machine opens no more connections ({error.strerror}): ask"
            " for fewer clients or a lower rate, or raise its limits."
        ) from error


def _check_head(response: http.client.HTTPResponse) -> None:
    kind = response.getheader("Content-Type", "").partition(";")[0].strip()
    if kind.lower() != "text/event-stream":
        raise Fault("bad_http", f"the answer is {kind or 'of no type'}")
    coding = response.getheader("Content-Encoding", "identity")
    if coding.lower() != "identity":
        raise Fault("bad_http", f"the answer is encoded as {coding}")


def _body(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """What is there, as soon as it is there."""
    left = MAX_ANSWER_BYTES
    while data := response.read1(READ_BYTES):
        left -= len(data)
        if left < 0:
            raise Fault("too_large", f"more than {MAX_ANSWER_BYTES} bytes")
        yield data


def _refusal(response: http.client.HTTPResponse) -> str:
    """What a refusal says; nothing if it cannot be read."""
    try:
        text = response.read(MAX_REFUSAL_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    return message_of(
        document if isinstance(document, dict) else {"error": text}
    )
