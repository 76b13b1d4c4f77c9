"""What a server asks of an engine: submit a request, read its events.

An engine may run one request at a time or many in one batch; nothing that
is written against this module can tell. All times are nanoseconds of the
engine's own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from labkit.generation import Token
from labkit.serving.protocol import GenerateRequest, Refusal


@dataclass(frozen=True)
class Queued:
    """The request was accepted; `ahead` requests run or wait before it."""

    time_ns: int
    ahead: int


@dataclass(frozen=True)
class Started:
    """Its prefill begins; it was queued at `queued_ns`."""

    time_ns: int
    queued_ns: int


@dataclass(frozen=True)
class Done:
    """It ended well: at its length, or where it was to stop."""

    time_ns: int
    reason: Literal["length", "stop"]


@dataclass(frozen=True)
class Failed:
    """It ended otherwise; `refusal` says how to a person and a program."""

    time_ns: int
    refusal: Refusal


Event = Queued | Started | Token | Done | Failed
"""One Queued, at most one Started, tokens, and exactly one Done or Failed."""


@dataclass
class Timeline:
    """What has happened to a request so far; None for what has not."""

    prompt_tokens: int
    queued_ns: int
    started_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    new_tokens: int = 0

    def add(self, event: Event) -> None:
        """Take one more event in."""
        if isinstance(event, Started):
            self.started_ns = event.time_ns
        elif isinstance(event, Token):
            if self.first_ns is None:
                self.first_ns = event.time_ns
            self.last_ns = event.time_ns
            self.new_tokens += 1


Observer = Callable[[Timeline, Event], None]
"""Told of every event, with what had happened before it. It must be quick,
for it is called on the thread that runs the model."""


@dataclass(frozen=True)
class Status:
    """Where an engine stands; `problem` is one sentence when it failed."""

    state: Literal["loading", "ready", "failed"]
    problem: str = ""


@dataclass(frozen=True)
class Load:
    """How many requests an engine has: in work, and waiting for a turn."""

    running: int
    waiting: int


class Served(Protocol):
    """The model behind an engine: its sizes and its text.

    Any thread may call these, at any time.
    """

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> int:
        """Most tokens that prompt and output may have together."""
        ...

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation, up to where the answer begins.

        Each message has a `role` and its `content`. Refused when the model
        knows no such conversation.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Their text; what is no whole character becomes U+FFFD."""
        ...


class Stream(Protocol):
    """One accepted request."""

    @property
    def request(self) -> GenerateRequest: ...

    def __iter__(self) -> Iterator[Event]:
        """Its events as they come, up to the one that ends it.

        For one reader. A reader that is slow, or never comes, holds up
        nobody.
        """
        ...

    def cancel(self) -> None:
        """Nobody wants the answer any more: it fails at the next token."""
        ...

    def stop(self) -> None:
        """The answer is long enough: it is done at the next token."""
        ...


class Engine(Protocol):
    """Every method may be called from any thread."""

    @property
    def status(self) -> Status: ...

    @property
    def load(self) -> Load: ...

    def backend(self) -> Served:
        """The model; refused with 503 while there is none."""
        ...

    def submit(self, request: GenerateRequest) -> Stream:
        """Queue a checked request.

        Refused with 503 while there is no model or the engine closes, and
        with 429 while as many wait as may.
        """
        ...

    def watch(self, observer: Observer) -> None:
        """Tell `observer` of every event of requests yet to come."""
        ...

    def close(self, timeout_s: float = 5.0) -> bool:
        """End every request and the engine; whether it did in time."""
        ...
