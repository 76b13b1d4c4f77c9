"""One connection of the scripted server, and one answer on it.

Standard library only.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from labkit.loadtest.timelines import Dialect, Step, TimeLine, refusal
from labkit.loadtest.wire import now_ns

OK = 200


@dataclass
class Write:
    """One step: when it was due, and the moment just before its send."""

    do: str
    tokens: int
    due_ns: int
    write_ns: int


@dataclass
class Played:
    """What was done for one request; `line` numbers its time line.

    `read_ns` is when the request had been read, and queued if no slot was
    free. `start_ns` is 0 ms of its time line: the moment at which it was
    read or, if it waited, at which its slot was due to be free. `end_ns` is
    when its last step was due. Both are None until then; `start_ns` stays
    None for a request that is refused. `writes` has what was sent while the
    client was there.
    """

    request: str
    line: int
    accepted_ns: int
    read_ns: int
    writes: list[Write] = field(default_factory=list)
    start_ns: int | None = None
    end_ns: int | None = None


class Peer:
    """A connection, with what came and what is still to be sent."""

    def __init__(self, connected: socket.socket, accepted_ns: int) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self.accepted_ns = accepted_ns
        self.received = b""
        self.unsent = b""
        self.open = True
        self._closing = False

    def write(self, data: bytes = b"") -> None:
        """Send what can be sent now; the rest waits."""
        self.unsent += data
        if not self.open or not self.unsent:
            return
        try:
            sent = self.socket.send(self.unsent)
        except BlockingIOError:
            return
        except OSError:  # the client is gone
            self.close()
            return
        self.unsent = self.unsent[sent:]
        if self._closing and not self.unsent:
            self.close()

    def read(self) -> None:
        """Take what came; close at the end."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.received += data
        if not data:
            self.close()

    def close_when_sent(self) -> None:
        """Close it after what is still to be sent."""
        self._closing = True
        if not self.unsent:
            self.close()

    def close(self, *, reset: bool = False) -> None:
        """Close it now, on request with RST in place of FIN."""
        if self.open and reset:
            pair = "hh" if os.name == "nt" else "ii"
            with suppress(OSError):
                self.socket.setsockopt(
                    socket.SOL_SOCKET,
                    socket.SO_LINGER,
                    struct.pack(pair, 1, 0),
                )
        self.open = False
        self.unsent = b""
        self.socket.close()


@dataclass(frozen=True)
class Asked:
    """A request that was read, and what it is answered with."""

    peer: Peer
    played: Played
    line: TimeLine
    path: str
    body: Mapping[str, Any]

    def refuse(self, status: int, message: str) -> None:
        """Answer with an HTTP error, and nothing else."""
        self.peer.write(answer(status, refusal(status, message)))


class Playing:
    """The answer to one request, step by step, from `start_ns` on.

    It goes on to its last step whatever became of the client, as in a server
    that does not look.
    """

    def __init__(self, asked: Asked, start_ns: int) -> None:
        self._asked = asked
        self._peer = asked.peer
        self._played = asked.played
        self._played.start_ns = self._start_ns = start_ns
        self._dialect = Dialect(
            asked.path, asked.body, asked.played.read_ns, start_ns
        )
        line = asked.line
        self._steps = [Step(line.head_ms, "raw")]
        if line.status == OK:
            self._steps += line.whole()
        self._place = 0

    @property
    def over(self) -> bool:
        """Whether the last step was played."""
        return self._place == len(self._steps)

    @property
    def due_ns(self) -> int:
        """When the next step is due, if it is not over."""
        return self._start_ns + round(self._steps[self._place].at_ms * 1e6)

    def advance(self) -> None:
        """Play the next step."""
        due_ns, step = self.due_ns, self._steps[self._place]
        first = self._place == 0
        self._place += 1
        if self.over:
            self._played.end_ns = due_ns
        if not self._peer.open:
            return
        if first:
            self._begin()
        elif step.do == "cut":
            self._peer.close_when_sent()
        elif step.do == "reset":
            self._peer.close(reset=True)
        elif step.do == "end":
            self._peer.write(b"0\r\n\r\n")
        elif step.do != "hang":
            self._write(step, due_ns)

    def _write(self, step: Step, due_ns: int) -> None:
        before = self._dialect.sent
        write = Write(step.do, 0, due_ns, now_ns())
        data = self._dialect.event(step, write.write_ns)
        write.tokens = self._dialect.sent - before
        self._played.writes.append(write)
        chunk = b"%x\r\n%b\r\n" % (len(data), data)
        write.write_ns = now_ns()
        self._peer.write(chunk)

    def _begin(self) -> None:
        """Send the head, or the refusal that the time line is."""
        line = self._asked.line
        if line.status != OK:
            text = line.steps[0].text if line.steps else ""
            self._asked.refuse(line.status, text or "The script says so.")
            return
        lines = (
            "HTTP/1.1 200 OK",
            f"Content-Type: {line.content_type}",
            "Transfer-Encoding: chunked",
        )
        self._peer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


def answer(status: int, body: bytes) -> bytes:
    """A whole JSON answer."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body
