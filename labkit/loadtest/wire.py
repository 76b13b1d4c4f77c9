"""An HTTP connection that knows when bytes left its socket.

`http.client` reads through a buffered reader; the raw reader below it stamps
each moment at which bytes came, before anything looks at them. Proxies are
not used. Standard library only.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from labkit.errors import LabError

Clock = Callable[[], int]


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
    """A connected socket for `http.client`, which stamps what it receives.

    `received_ns` is the moment after the latest receive, also of the end.
    Nothing waits beyond `deadline_ns`: TimeoutError.
    """

    def __init__(
        self, connected: socket.socket, deadline_ns: int, clock: Clock
    ) -> None:
        self._socket = connected
        self._clock = clock
        self.deadline_ns = deadline_ns
        self.received_ns = 0

    def makefile(self, mode: str) -> io.BufferedReader:
        """The reading side; `http.client` asks for it with each answer."""
        assert mode == "rb"
        raw = self._socket.makefile("rb", buffering=0)
        return io.BufferedReader(_StampedReader(raw, self))

    def sendall(self, data: Any) -> None:
        """Send all of it."""
        self.wait_no_longer()
        self._socket.sendall(data)

    def close(self) -> None:
        """Close it, as soon as no reader is open."""
        self._socket.close()

    def wait_no_longer(self) -> None:
        """Make the next operation end at the deadline."""
        left_s = (self.deadline_ns - self._clock()) / 1e9
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def stamp(self) -> None:
        """Bytes have come."""
        self.received_ns = self._clock()

    def ended(self) -> bool:
        """Whether an idle connection was closed, or has stray bytes."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except (OSError, ValueError):  # TLS cannot peek: it opens a new one
            return True
        return True


class _StampedReader(io.RawIOBase):
    def __init__(self, raw: Any, wire: Wire) -> None:
        self._raw = raw
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._wire.wait_no_longer()
        count: int | None = self._raw.readinto(buffer)
        self._wire.stamp()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class Connection:
    """An open connection, which asks and is answered, many times over.

    `connected_ns` is the moment at which it was established, TLS included.
    """

    def __init__(
        self, address: Address, deadline_ns: int, clock: Clock
    ) -> None:
        left_s = max((deadline_ns - clock()) / 1e9, 1e-3)
        plain = socket.create_connection((address.host, address.port), left_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.scheme == "https":
                context = ssl.create_default_context()
                plain = context.wrap_socket(
                    plain, server_hostname=address.host
                )
        except BaseException:
            plain.close()
            raise
        self.connected_ns = clock()
        self.wire = Wire(plain, deadline_ns, clock)

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
