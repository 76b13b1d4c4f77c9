"""One connection of the server: what waitress leaves to be desired.

Waitress answers malformed HTTP in plain text by itself, and closes a
connection whose body it did not read, so that the client's system throws the
answer away; and it tells nobody when a client goes. The classes here make
those answers JSON and let them arrive, and tell who asks.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ErrorTask, WSGITask

from labkit.serving.protocol import (
    Refusal,
    body_too_large,
    error_document,
    to_json,
)

MAX_HEADER_BYTES = 32 * 1024
# How long what comes after the last answer is read and thrown away.
DRAIN_S = 30.0
# How long a request may take to arrive.
RECEIVE_S = 60.0
# How long a connection may be open before its first byte. Clients send at
# once; a connection that never does takes one of a limited number.
SILENT_S = 10.0
# How many requests of a connection are kept, the one that is served among
# them. Each may have a body of the greatest size.
KEPT_REQUESTS = 8


def _refusal(error: Any, max_body_bytes: int) -> Refusal:
    """What waitress found wrong with a request, in our words.

    Its own texts repeat the client's bytes.
    """
    if isinstance(error, Refusal):
        return error
    if error.code == 413:
        return body_too_large(max_body_bytes)
    if error.code == 431:
        return Refusal(
            431,
            "headers_too_large",
            f"The headers hold more than {MAX_HEADER_BYTES} bytes; "
            "send fewer or shorter ones.",
        )
    if error.code == 501:
        return Refusal(
            501,
            "unsupported_transfer_encoding",
            "This Transfer-Encoding is not supported; send a Content-Length "
            "or chunked.",
        )
    if error.code == 500:
        return Refusal(
            500,
            "internal_error",
            "The server failed on this request; its log says why, and other "
            "requests can still be sent.",
        )
    return Refusal(
        400,
        "malformed_http",
        "The request is not valid HTTP/1.1; use an HTTP client such as curl.",
    )


def _incomplete() -> Refusal:
    return Refusal(
        400,
        "incomplete_request",
        "The connection ended before the request did; send as many bytes as "
        "Content-Length says.",
    )


class _Parser(HTTPRequestParser):
    path = ""  # waitress logs it even for requests that never had one

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            # A Content-Length of 5,000 digits, or a target like http://[:
            # waitress would drop the connection without an answer.
            raise ParsingError(str(error)) from None
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            # Two programs may not agree on where such a request ends.
            raise ParsingError("two lengths")
        host = self.headers.get("HOST")
        if (host is None and self.version == "1.1") or "," in (host or ""):
            raise ParsingError("no host, or two")  # RFC 9112, section 3.2

    def received(self, data: bytes) -> int:
        consumed: int = super().received(data)
        if self.error is not None:
            # Or waitress invites the client to send the refused body.
            self.expect_continue = False
        return consumed


class _RefusalTask(ErrorTask):
    def execute(self) -> None:
        limit = self.channel.adj.max_request_body_size - 1
        refusal = _refusal(self.request.error, limit)
        body = to_json(error_document(refusal, self.request.path))
        phrase = HTTPStatus(refusal.status).phrase
        self.status = f"{refusal.status} {phrase}"
        self.response_headers.append(("Content-Type", "application/json"))
        self.content_length = len(body)
        self.set_close_on_finish()
        self.write(body)


class Departure:
    """Tells who watches when the client of a request goes away.

    The end of what it sends is how it goes, or how it says that it has
    asked all it will: that a watcher may take it for, when it comes soon.
    """

    def __init__(self) -> None:
        self.half_closed = False
        self._lock = threading.Lock()
        self._watchers: list[tuple[Callable[[], None], float]] = []
        self._began = time.monotonic()
        self._after_s: float | None = None

    def begin(self) -> None:
        """Another request is served; its watchers are yet to come."""
        with self._lock:
            self._began = time.monotonic()
            self._watchers = []

    def watch(self, callback: Callable[[], None], patience_s: float) -> None:
        """Call back once the client is gone, at once if it is.

        An end within `patience_s` of the request's beginning is none.
        """
        with self._lock:
            self._watchers.append((callback, patience_s))
        self._tell()

    def half_close(self) -> None:
        """Nothing more will come from the client."""
        with self._lock:
            if self._after_s is None:
                self._after_s = time.monotonic() - self._began
                self.half_closed = True
        self._tell()

    def lost(self) -> None:
        """The connection is closed."""
        with self._lock:
            self._after_s = float("inf")
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            after_s = self._after_s
            gone = [
                watcher
                for watcher in self._watchers
                if after_s is not None and after_s >= watcher[1]
            ]
            self._watchers = [w for w in self._watchers if w not in gone]
        for callback, _ in gone:
            callback()


class _Task(WSGITask):
    def get_environment(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environment()
        environ["labkit.on_departure"] = self.channel.on_departure
        return environ


class _WithoutPath(logging.Filter):
    """Takes the path out of what waitress logs, for it may be private."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = str(record.msg).partition(" while serving ")[0]
        return True


def _logger() -> logging.Logger:
    logger = logging.getLogger(__name__)
    logger.addFilter(_WithoutPath())
    return logger


class Channel(HTTPChannel):
    """A connection that its last answer does not reset.

    When a socket is closed while bytes lie unread, TCP resets the connection
    and the client may lose an answer it has not read yet. So after an answer
    that is the last, such as a refusal, only the sending half is closed; what
    still arrives is thrown away until the client closes, or for DRAIN_S
    (RFC 9112, section 9.6).

    It is read from as long as it is open, for that is how the end of what a
    client sends is noticed. So what comes behind KEPT_REQUESTS is thrown
    away too: the last that is kept is answered with Connection: close, which
    tells a client to send the others again (section 9.3.2).
    """

    logger = _logger()
    parser_class = _Parser
    task_class = _Task
    error_task_class = _RefusalTask
    request: Any = None
    receiving_since: float | None = None
    close_when_flushed: bool = False
    will_close: bool = False
    drain_until: float | None = None
    ignores_more: bool = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._departure = Departure()
        self._silent_since: float | None = time.monotonic()
        super().__init__(*arguments, **options)

    def service(self) -> None:
        self._departure.begin()
        super().service()

    def on_departure(
        self, callback: Callable[[], None], patience_s: float
    ) -> None:
        self._departure.watch(callback, patience_s)

    def del_channel(self, map: Any = None) -> None:
        super().del_channel(map)
        self._departure.lost()

    def readable(self) -> bool:
        # The end of what a client sends can be read again and again.
        waits = self._departure.half_closed and bool(self.requests)
        return not waits and bool(super().readable())

    def handle_read(self) -> None:
        if not self._at_end():
            super().handle_read()
            return
        self._departure.half_close()
        if self.request is not None:
            self._refuse_incomplete()
        elif not self.requests:
            super().handle_read()

    def received(self, data: bytes) -> bool:
        self._silent_since = None
        self._keep_no_more_than_allowed()
        if self.drain_until is not None or self.ignores_more:
            return False
        if self.request is None:
            self.receiving_since = time.monotonic()
        result: bool = super().received(data)
        return result

    def _keep_no_more_than_allowed(self) -> None:
        with self.requests_lock:
            if len(self.requests) >= KEPT_REQUESTS and not self.ignores_more:
                self.requests[-1].headers["CONNECTION"] = "close"
                self.request = None
                self.ignores_more = True

    def close_if_slow(self) -> None:
        """Close when a request, or its first byte, takes too long."""
        now = time.monotonic()
        since, silent_since = self.receiving_since, self._silent_since
        if self.request is not None and since is not None:
            self.will_close = self.will_close or now - since > RECEIVE_S
        if silent_since is not None and now - silent_since > SILENT_S:
            self.will_close = True

    def writable(self) -> bool:
        return bool(super().writable()) or self._drained_long_enough()

    def handle_write(self) -> None:
        if self._drained_long_enough():
            self.will_close = True
        hold = self.close_when_flushed
        if hold:
            self.close_when_flushed = False
        super().handle_write()
        if hold and self.connected:
            if self.total_outbufs_len:
                self.close_when_flushed = True
            else:
                self._start_draining()

    def _start_draining(self) -> None:
        self.drain_until = time.monotonic() + DRAIN_S
        self.request = None  # what began to arrive is not to be answered
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.will_close = True

    def _drained_long_enough(self) -> bool:
        return (
            self.drain_until is not None
            and time.monotonic() >= self.drain_until
        )

    def _at_end(self) -> bool:
        """Whether the client has stopped sending."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return False

    def _refuse_incomplete(self) -> None:
        with self.requests_lock:
            if self.close_when_flushed:
                return  # the answer that is to be the last one is written
            self.request.error = _incomplete()
            self.request.completed = True
            self.requests.append(self.request)
            self.request = None
            if len(self.requests) == 1:
                self.server.add_task(self)
