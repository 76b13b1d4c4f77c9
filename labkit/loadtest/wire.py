"""An HTTP connection that knows when bytes left its socket.

`http.client` reads through a buffered reader; the raw reader below it stamps
each moment at which bytes came, before anything looks at them. Proxies are
not used. Standard library only.
"""

from __future__ import annotations

import errno
import http.client
import io
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from labkit.errors import LabError

Clock = Callable[[], int]
T = TypeVar("T")
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)
"""One that needs no file of its own."""


@dataclass(frozen=True)
class Address:
    """Where a server is. `prefix` is a path without a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, url: str) -> Address:
        """The address in a URL; a path /v1 at its end is dropped."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            parts, port = urlsplit(""), 0
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LabError(
                f"{url[:100]!r} is no address of a server: give one like"
                " http://127.0.0.1:8001."
            )
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.scheme, parts.hostname, port, prefix)


class Wire:
    """A socket for `http.client`, which stamps what it receives.

    The socket never blocks; what waits is a selector. So between a stamp and
    the system call that it belongs to no other thread can run: a socket with
    a time-out polls first, and gives the interpreter away for that.
    `received_ns` is the moment after the latest receive, also of the end.
    Nothing waits beyond `deadline_ns`: TimeoutError.
    """

    def __init__(
        self, made: socket.socket, deadline_ns: int, clock: Clock
    ) -> None:
        made.setblocking(False)
        self._socket = made
        self._clock = clock
        self._selector = _Selector()
        self._selector.register(made, READ)
        self.deadline_ns = deadline_ns
        self.received_ns = 0

    def connect(self, to: Any) -> None:
        """Connect to an address as `socket.getaddrinfo` gives it."""
        code = self._socket.connect_ex(to)
        if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._wait(WRITE)
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Speak TLS from here on."""
        self._selector.unregister(self._socket)
        secured = context.wrap_socket(
            self._socket, server_hostname=name, do_handshake_on_connect=False
        )
        self._socket = secured
        self._selector.register(secured, READ)
        self._when_ready(READ, secured.do_handshake)

    def makefile(self, mode: str) -> io.BufferedReader:
        """The reading side; `http.client` asks for it with each answer."""
        assert mode == "rb"
        return io.BufferedReader(_StampedReader(self))

    def send(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            view = view[self._when_ready(WRITE, self._socket.send, view) :]

    def receive_into(self, buffer: Any) -> int:
        """Wait for bytes, or the end, and stamp them."""
        if not self._decrypted():
            self._wait(READ)
        count = self._when_ready(READ, self._socket.recv_into, buffer)
        self.received_ns = self._clock()
        return count

    def ended(self) -> bool:
        """Whether an idle connection was closed, or has stray bytes."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except (OSError, ValueError):  # TLS cannot peek: it opens a new one
            return True
        return True

    def close(self) -> None:
        """Close it."""
        self._selector.close()
        self._socket.close()

    def _decrypted(self) -> int:
        """Bytes that TLS holds: the socket itself has them no more."""
        held = self._socket
        return held.pending() if isinstance(held, ssl.SSLSocket) else 0

    def _when_ready(
        self, event: int, operation: Callable[..., T], *arguments: Any
    ) -> T:
        """Try, and when the socket is not ready wait and try again."""
        while True:
            try:
                return operation(*arguments)
            except BlockingIOError:
                self._wait(event)
            except ssl.SSLWantReadError:
                self._wait(READ)
            except ssl.SSLWantWriteError:
                self._wait(WRITE)

    def _wait(self, event: int) -> None:
        if event != self._selector.get_key(self._socket).events:
            self._selector.modify(self._socket, event)
        while (left_s := (self.deadline_ns - self._clock()) / 1e9) > 0:
            if self._selector.select(left_s):
                return
        raise TimeoutError


class _StampedReader(io.RawIOBase):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._wire.receive_into(buffer)


class Connection:
    """A connection, which asks and is answered, many times over.

    It is made with the name resolved and a socket at hand, so that nothing
    is left to do before `open`; `connected_ns` is the moment at which that
    was done, TLS included.
    """

    def __init__(self, address: Address, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM
        )
        self._context = (
            ssl.create_default_context() if address.scheme == "https" else None
        )
        self.wire = self._made(self._found[0])
        self.connected_ns = 0

    def open(self, deadline_ns: int) -> None:
        """Connect to the first address of the host that answers."""
        for found in self._found:
            if found is not self._found[0]:
                self.wire.close()
                self.wire = self._made(found)
            self.wire.deadline_ns = deadline_ns
            try:
                self.wire.connect(found[4])
                break
            except OSError:
                if found is self._found[-1]:
                    raise
        if self._context is not None:
            self.wire.secure(self._context, self._address.host)
        self.connected_ns = self._clock()

    def read_head(self) -> http.client.HTTPResponse:
        """The answer to what was sent on the wire, up to its body."""
        # Of a socket it uses makefile alone.
        whole: Any = self.wire
        response = http.client.HTTPResponse(whole, method="POST")
        response.begin()
        return response

    def close(self) -> None:
        """Close it."""
        self.wire.close()

    def _made(self, found: Any) -> Wire:
        family, kind, protocol, _, _ = found
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Wire(made, 0, self._clock)


def post(
    address: Address, path: str, headers: Mapping[str, str], body: bytes
) -> bytes:
    """The bytes of a POST; LabError for a header that is no single line."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}:{address.port}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    for line in lines:
        if not (line.isascii() and line.isprintable()):
            raise LabError(
                "The address, the key and the name of a request have"
                " printable ASCII alone; write them so."
            )
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def now_ns() -> int:
    """The clock of all records."""
    return time.perf_counter_ns()
