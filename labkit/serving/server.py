"""Puts an application on a socket, with waitress.

Waitress answers malformed HTTP in plain text by itself, and closes a
connection whose body it did not read, so that the client's system throws the
answer away. The classes here make those answers JSON and let them arrive.
"""

from __future__ import annotations

import errno
import ipaddress
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import FrameType, TracebackType
from typing import Any

from flask import Flask
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask

from labkit.errors import LabError
from labkit.serving.protocol import Limits, Refusal, body_too_large, to_json

# A request holds its thread while it waits for the model, so this many can
# wait before a health check has to.
THREADS = 32
MAX_HEADER_BYTES = 32 * 1024
# How long the rest of a refused request is read and thrown away.
DRAIN_S = 30.0
# How long `stop` waits for requests that are being answered.
STOP_S = 5.0


class BackgroundServer:
    """Serves `app` from threads of this process until it is stopped.

    Port 0 takes a free one; `url` tells which. It stops at the end of its
    `with` block, by `stop()`, when nothing refers to it any more (a cell
    that runs again), or with the process. A `host` that other machines can
    reach takes `allow_remote`.
    """

    def __init__(
        self,
        app: Flask,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_remote: bool = False,
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._allow_remote = allow_remote
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        """http://host:port, without a slash at the end."""
        if self._server is None:
            raise LabError("The server is not running; call start() first.")
        return _url(self._server.effective_host, self._server.effective_port)

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> BackgroundServer:
        """Listen. LabError if the address is refused or taken."""
        if self.running:
            return self
        if not self._allow_remote and not is_loopback(self._host):
            raise LabError(
                f"{self._host} can be reached from other machines; use "
                "127.0.0.1, or ask for remote access explicitly."
            )
        limit = self._app.config["MAX_CONTENT_LENGTH"]
        server = _Server(
            self._app,
            _listening_socket(self._host, self._port),
            limit or Limits().max_body_bytes,
        )
        thread = threading.Thread(
            target=server.run, name="labkit-server", daemon=True
        )
        thread.start()
        self._server, self._thread = server, thread
        # A finalizer runs once at most, and also when this object is
        # collected or the process ends.
        self._stop = weakref.finalize(self, server.stop, thread)
        return self

    def stop(self) -> None:
        """Free the port, finish what is being answered, end the threads.

        Requests that take longer than STOP_S are cut off. Stopping twice
        does nothing.
        """
        self._stop()
        self._server = None

    def __enter__(self) -> BackgroundServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _print_now(line: str) -> None:
    print(line, flush=True)


def serve(
    app: Flask,
    *,
    host: str = "127.0.0.1",
    port: int = 8001,
    allow_remote: bool = False,
    say: Callable[[str], object] = _print_now,
) -> None:
    """Serve `app` until Ctrl-C or SIGTERM; call it from the main thread.

    A `host` that other machines can reach takes `allow_remote` and is
    warned of. LabError if the address is refused or taken.
    """
    server = BackgroundServer(
        app, host=host, port=port, allow_remote=allow_remote
    )
    with _stop_signals() as stop, server:
        if not is_loopback(host):
            say(
                f"Warning: anyone who can reach {host} can use this server; "
                "it asks for no password and does not encrypt."
            )
        say(f"Serving on {server.url} (Ctrl-C stops it).")
        # With a time-out, because Windows delivers no Ctrl-C to a wait
        # without one.
        while not stop.wait(0.5):
            if not server.running:
                raise LabError(
                    "The server ended by itself; start it again, and report "
                    "what its log says."
                )


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, in place of what they did."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; LabError if unknown."""
    return ipaddress.ip_address(_resolve(host, 0)[1][0]).is_loopback


def _resolve(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """Address family and socket address; IPv4 where a name has both."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise LabError(
            f"The host {host!r} is unknown ({error}); use 127.0.0.1."
        ) from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return found[0][0], found[0][4]


def _listening_socket(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise LabError(f"{port} is not a port; use one from 0 to 65535.")
    family, address = _resolve(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # On POSIX this lets a server start again at once; on Windows it
        # would let two servers share a port.
        if sys.platform == "win32":
            listener.setsockopt(
                socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1
            )
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise LabError(
                f"{host} is not an address of this machine; use 127.0.0.1."
            ) from None
        raise LabError(
            f"Port {port} on {host} cannot be used ({error.strerror}); "
            "choose another (--port on the command line), or 0 for a free one."
        ) from None
    return listener


def _url(host: str, port: str | int) -> str:
    return (
        f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    )


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
        body = to_json(refusal.body())
        phrase = HTTPStatus(refusal.status).phrase
        self.status = f"{refusal.status} {phrase}"
        self.response_headers.append(("Content-Type", "application/json"))
        self.content_length = len(body)
        self.set_close_on_finish()
        self.channel.drain_before_close = True
        self.write(body)


class _Channel(HTTPChannel):
    """A connection that a refusal does not reset.

    When a socket is closed while bytes lie unread, TCP resets the connection
    and the client may lose an answer it has not read yet. So after a refusal
    only the sending half is closed; what still arrives is thrown away until
    the client closes, or for DRAIN_S (RFC 9112, section 9.6).
    """

    parser_class = _Parser
    error_task_class = _RefusalTask
    request: Any = None
    close_when_flushed: bool = False
    drain_before_close = False
    drain_until: float | None = None

    def handle_read(self) -> None:
        if self._ended_early():
            self._refuse_incomplete()
        else:
            super().handle_read()

    def received(self, data: bytes) -> bool:
        if self.drain_until is not None:
            return False
        result: bool = super().received(data)
        return result

    def writable(self) -> bool:
        return bool(super().writable()) or self._drained_long_enough()

    def handle_write(self) -> None:
        if self._drained_long_enough():
            self.will_close = True
        hold = self.drain_before_close and self.close_when_flushed
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

    def _ended_early(self) -> bool:
        """Whether the client stopped sending in the middle of a request."""
        if self.request is None:
            return False
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return False

    def _refuse_incomplete(self) -> None:
        with self.requests_lock:
            self.request.error = _incomplete()
            self.request.completed = True
            self.requests.append(self.request)
            self.request = None
            if len(self.requests) == 1:
                self.server.add_task(self)


class _Server(TcpWSGIServer):
    channel_class = _Channel

    def __init__(
        self, app: Flask, listener: socket.socket, max_body_bytes: int
    ) -> None:
        self._trigger_lock = threading.Lock()
        super().__init__(
            app,
            _sock=listener,
            bind_socket=False,
            sockinfo=(listener.family, listener.type, None, None),
            threads=THREADS,
            ident="labkit",
            max_request_header_size=MAX_HEADER_BYTES,
            # waitress refuses bodies of this size and larger
            max_request_body_size=max_body_bytes + 1,
        )

    def pull_trigger(self, thunk: Callable[[], object] | None = None) -> None:
        """Wake the loop, to run `thunk` there.

        The lock keeps `_close_all` from closing the pipe under a thread that
        writes to it; its number may be another file's at once.
        """
        with self._trigger_lock:
            if self._map:
                self.trigger.pull_trigger(thunk)

    def stop(self, loop: threading.Thread) -> None:
        """Stop listening, then answer, then close."""
        self.pull_trigger(lambda: wasyncore.dispatcher.close(self))
        self.task_dispatcher.shutdown(timeout=STOP_S)
        self.pull_trigger(self._close_all)
        # The garbage collector may call this from any thread.
        if loop is not threading.current_thread():
            loop.join(STOP_S)
        if not loop.is_alive():
            self._close_all()  # for a loop that had ended by itself

    def _close_all(self) -> None:
        with self._trigger_lock:
            wasyncore.close_all(self._map)
