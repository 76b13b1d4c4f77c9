"""What every protocol shares: targets, and readings of their answers.

A target knows what to send and, by a `reading()`, what the events of one
answer mean. The course's own is in `lab_target`, OpenAI's in
`openai_target`. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from labkit.loadtest.records import Arrival, Counted, Request
from labkit.loadtest.wire import Address

MESSAGE_CHARACTERS = 200
LIMIT = 2**63
"""Counts, ids and stamps of a server are below this."""


class Fault(Exception):
    """The server did what it must not: a code of `records.FAILURES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = one_line(message)


@dataclass
class Reading:
    """What the events of one answer said so far."""

    done: bool = False
    arrived: int = 0
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    counted: Counted | None = None
    queued_ns: int | None = None
    start_ns: int | None = None
    error: str | None = None
    """The message of an error event."""
    vocabulary: int | None = None
    """How many token ids there are, where that is known."""
    first_stamp_ns: int | None = None
    last_stamp_ns: int = 0

    def feed(self, name: str, data: str, time_ns: int) -> Arrival | None:
        """Take an event that left the socket at `time_ns`.

        None for one that is not recorded. Fault when it is malformed.
        """
        if self.error is not None:
            return None  # some servers still say [DONE]
        if self.done:
            raise Fault("malformed", "an event came after the last one")
        arrival = self._read(name, data, time_ns)
        if arrival is not None:
            self._judge(arrival)
            self.arrived += arrival.tokens
        return arrival

    def _judge(self, arrival: Arrival) -> None:
        """Fault for ids that do not exist, or stamps that fall."""
        bound = self.vocabulary or LIMIT
        for each in arrival.ids:
            if not 0 <= each < bound:
                raise Fault("malformed", f"token id {str(each)[:30]}")
        stamp = arrival.server_ns
        if stamp is None:
            return
        if stamp < self.last_stamp_ns:
            raise Fault("malformed", "the server's stamps fall")
        self.last_stamp_ns = stamp
        if self.first_stamp_ns is None:
            self.first_stamp_ns = stamp
        if self.queued_ns is not None and self.queued_ns > self.first_stamp_ns:
            raise Fault("malformed", "it was queued after its first event")

    def check(self) -> None:
        """At the end of the stream: Fault unless it is whole."""
        if self.error is not None:
            raise Fault("error_event", self.error)
        if not self.done:
            raise Fault("no_terminal_event", "the stream just ended")
        if not self.arrived:
            raise Fault("no_token", "the stream ended without a token")
        counts = self.new_tokens, self.arrived
        exact = self.counted == "ids" or self.new_tokens == 0
        if exact and self.new_tokens is not None and counts[0] != counts[1]:
            raise Fault(
                "count_mismatch",
                f"the server counted {counts[0]}, and {counts[1]} arrived",
            )

    def _read(self, name: str, data: str, time_ns: int) -> Arrival | None:
        raise NotImplementedError


class Target(Protocol):
    """A server and how to talk to it."""

    @property
    def address(self) -> Address: ...

    @property
    def path(self) -> str: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def body(self, request: Request) -> dict[str, Any]: ...

    def reading(self) -> Reading: ...


# Parts of documents ----------------------------------------------------------


def one_line(text: str) -> str:
    """Printable, on one line, and cut."""
    words = " ".join(text.split())[:MESSAGE_CHARACTERS]
    return "".join(c if c.isprintable() else "?" for c in words)


def message_of(document: Mapping[str, Any]) -> str:
    """The sentence of an error, in the forms that servers use."""
    error = document.get("error", document)
    if isinstance(error, dict):
        error = error.get("message", error)
    return one_line(error if isinstance(error, str) else json.dumps(error))


def authorization(key: str | None) -> Mapping[str, str]:
    """The header for a key, if there is one."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def document_of(data: str) -> dict[str, Any]:
    """The JSON object in an event; Fault for anything else."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise Fault("malformed", f"{data[:80]!r} is not JSON") from None
    if not isinstance(document, dict):
        raise Fault("malformed", f"{data[:80]!r} is not a JSON object")
    return document


def integer(document: Mapping[str, Any], name: str) -> int | None:
    """A field that is a count or a stamp, None where it is missing."""
    value = document.get(name)
    if value is not None and (
        type(value) is not int or not 0 <= value < LIMIT
    ):
        raise Fault("malformed", f"{name} is {str(value)[:80]}")
    return value


def text_of(document: Mapping[str, Any], name: str) -> str:
    """A field that is text, empty where it is missing."""
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise Fault("malformed", f"{name} is {str(value)[:80]}")
    return value or ""
