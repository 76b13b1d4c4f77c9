"""What a client saw of one request: the raw material of every metric.

All moments are `time.perf_counter_ns()` of the client's process, which is
one clock for all processes of a machine (Linux, macOS, Windows), so that a
server's stamps can stand beside them. Undefined is None, never 0. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from labkit.errors import LabError

Kind = Literal["start", "token", "other", "done", "error"]
"""What an event is. "other" carries no token: a role, an empty delta, a
finish reason, usage."""
Counted = Literal["ids", "usage", "chunks"]
"""Where a number of new tokens comes from: the ids that the server sent, the
usage that it reported, or, where it says neither, its chunks of text."""

FAILURES: Mapping[str, str] = {
    "connection": "the connection was refused, or broke",
    "timeout": "it took longer than the time-out allows",
    "http_NNN": "the server answered with this status, not with 200",
    "bad_http": "the answer is not HTTP, or not an event stream",
    "malformed": "an event is not what the protocol says",
    "too_large": "an event, or the whole answer, is larger than is read",
    "error_event": "the server sent an error event",
    "no_terminal_event": "the stream ended before its terminal event",
    "no_token": "the stream ended well, without a single token",
    "count_mismatch": "tokens that arrived and the server's count differ",
}
"""Codes of `Record.failure`, each with what it means."""


@dataclass(frozen=True)
class Request:
    """What to ask. Either `prompt_ids` or `text`.

    `name` is unique within a run ("w003" for a warm-up request, "m017" for
    a measured one) and travels as X-Request-Id.
    """

    name: str
    new_tokens: int
    prompt_ids: tuple[int, ...] | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        if (self.prompt_ids is None) == (self.text is None):
            raise LabError(
                f"Request {self.name}: give either prompt_ids or text."
            )


@dataclass(frozen=True)
class Arrival:
    """One event of a stream.

    `time_ns` is the moment at which the last of its bytes left the socket,
    before anything was parsed; events that came out together share it.
    `tokens` is how many tokens it carries; `server_ns` the server's own
    stamp, where it sends one.
    """

    time_ns: int
    kind: Kind
    ids: tuple[int, ...] = ()
    tokens: int = 0
    server_ns: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Record:
    """One request, from when it was due to the end of its stream.

    `sent_ns` is taken just before the connection is opened, when the name of
    the host is resolved and a socket made, or, on one that is used again
    (`connected_ns` is None), before the first byte is written.
    `new_tokens` is the server's count, `counted` says of what kind. The
    server's `queued_ns` and `start_ns` come with its start event.
    """

    request: str
    sent_ns: int
    end_ns: int
    due_ns: int | None = None
    connected_ns: int | None = None
    arrivals: tuple[Arrival, ...] = ()
    status: int | None = None
    failure: str | None = None
    message: str = ""
    """What is known of a failure, one line."""
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    counted: Counted | None = None
    queued_ns: int | None = None
    start_ns: int | None = None
    startup: bool = False
    """One of those that a closed loop released at once; set by the runner."""

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.failure is None
