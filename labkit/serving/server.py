"""Puts an application on a socket, with waitress."""

from __future__ import annotations

import errno
import ipaddress
import logging
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from flask import Flask
from waitress import wasyncore
from waitress.server import TcpWSGIServer

from labkit.errors import LabError
from labkit.serving.channel import MAX_HEADER_BYTES, Channel
from labkit.serving.protocol import Limits

# A request holds its thread while it waits for the model or streams, and far
# fewer are let in than this: health and metrics find a free one.
THREADS = 64
MAX_CONNECTIONS = 400
# Every request waits on a thread; how many wait for the model, /metrics says.
logging.getLogger("waitress.queue").setLevel(logging.ERROR)
# How often connections that are too slow are looked for.
CLEANUP_S = 5
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


def serve(  # noqa: PLR0913 - each is one choice, given by name
    app: Flask,
    *,
    host: str = "127.0.0.1",
    port: int = 8001,
    allow_remote: bool = False,
    has_key: bool = False,
    say: Callable[[str], object] = _print_now,
    finish: Callable[[], object] = lambda: None,
) -> None:
    """Serve `app` until Ctrl-C or SIGTERM; call it from the main thread.

    Then `finish` ends the requests there are, which are told so as long as
    the server stands.

    A `host` that other machines can reach takes `allow_remote` and is
    warned of, by whether the app `has_key`. LabError if the address is
    refused or taken.
    """
    server = BackgroundServer(
        app, host=host, port=port, allow_remote=allow_remote
    )
    with _stop_signals() as stop, server:
        if not is_loopback(host):
            say(_warning(host, has_key))
        say(f"Serving on {server.url} (Ctrl-C stops it).")
        # With a time-out, because Windows delivers no Ctrl-C to a wait
        # without one.
        while not stop.wait(0.5):
            if not server.running:
                raise LabError(
                    "The server ended by itself; start it again, and report "
                    "what its log says."
                )
        finish()


def _warning(host: str, has_key: bool) -> str:
    if has_key:
        return (
            f"Warning: anyone who can reach {host} can use this server with "
            "its key, which it does not encrypt."
        )
    return (
        f"Warning: anyone who can reach {host} can use this server; it asks "
        "for no password and does not encrypt. Set LABKIT_API_KEY to ask for "
        "a key."
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


class _Server(TcpWSGIServer):
    channel_class = Channel

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
            connection_limit=MAX_CONNECTIONS,
            cleanup_interval=CLEANUP_S,
            # Reads on while requests are served, or the end of a connection
            # would go unnoticed until then. The channel sets the limit.
            channel_request_lookahead=sys.maxsize,
            ident="labkit",
            max_request_header_size=MAX_HEADER_BYTES,
            # waitress refuses bodies of this size and larger
            max_request_body_size=max_body_bytes + 1,
        )

    def maintenance(self, now: float) -> None:
        """Close connections that nothing, or too little, comes over."""
        super().maintenance(now)
        for channel in tuple(self.active_channels.values()):
            channel.close_if_slow()

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
