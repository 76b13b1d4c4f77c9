"""Text from token ids, as they come: pure functions of what came so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from labkit.generation import Token
from labkit.serving.interface import Done, Failed, Started, Stream

BROKEN = "\N{REPLACEMENT CHARACTER}"
REACH = 4
"""A character has at most four bytes, and a token at least one."""


class Detokenizer:
    """Turns ids into text that is never taken back.

    A token may end within a character; what there is of it waits for the
    next one, and a character that is never completed is never shown.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._last: tuple[int, ...] = ()

    def feed(self, token_id: int) -> str:
        """The text that one more id makes certain; may be empty."""
        ids = (*self._last, token_id)
        known = len(self._whole(self._last)) if self._last else 0
        text = self._whole(ids)[known:]
        self._last = ids[-REACH:]
        return text

    def _whole(self, ids: tuple[int, ...]) -> str:
        # Only what stands last can still become something else.
        return self._decode(ids).removesuffix(BROKEN)


class StopStrings:
    """Passes text on up to the first of some strings, which is left out.

    What may be the beginning of one waits until it is known.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """The text that can be shown; once `found`, there is no more."""
        if self.found:
            return ""
        text = self._held + text
        ends = [text.find(each) for each in self._strings if each in text]
        if ends:
            self.found = True
            self._held = ""
            return text[: min(ends)]
        keep = max((_overlap(text, each) for each in self._strings), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def rest(self) -> str:
        """What waits still, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, string: str) -> int:
    """Length of the longest end of `text` with which `string` begins."""
    longest = min(len(text), len(string) - 1)
    sizes = range(longest, 0, -1)
    return next((n for n in sizes if text.endswith(string[:n])), 0)


@dataclass(frozen=True)
class Piece:
    """A token, and the text that became certain with it."""

    token: Token
    text: str


@dataclass(frozen=True)
class End:
    """A good end, with text that had waited for what may have come."""

    time_ns: int
    reason: Literal["length", "stop"]
    text: str


def read(
    stream: Stream,
    decode: Callable[[Sequence[int]], str],
    stop: Sequence[str] = (),
) -> Iterator[Started | Piece | End | Failed]:
    """The events of a stream with their text, up to a string in `stop`."""
    detokenizer = Detokenizer(decode)
    strings = StopStrings(stop)
    for event in stream:
        if isinstance(event, Token):
            if strings.found:
                continue  # computed before the engine heard of the stop
            text = strings.feed(detokenizer.feed(event.id))
            if strings.found:
                stream.stop()
            yield Piece(event, text)
        elif isinstance(event, Done | Failed) and strings.found:
            yield End(event.time_ns, "stop", "")
        elif isinstance(event, Done):
            yield End(event.time_ns, event.reason, strings.rest())
        elif isinstance(event, Started | Failed):
            yield event


@dataclass(frozen=True)
class Answer:
    """A whole answer, with the engine's times."""

    text: str
    ids: tuple[int, ...]
    reason: Literal["length", "stop"]
    queued_ns: int
    start_ns: int
    end_ns: int


def collect(
    events: Iterable[Started | Piece | End | Failed],
) -> Answer | Failed:
    """Wait for the end of what `read` gives."""
    started = Started(0, 0)
    pieces: list[Piece] = []
    for event in events:
        if isinstance(event, Failed):
            return event
        if isinstance(event, Started):
            started = event
        elif isinstance(event, Piece):
            pieces.append(event)
        else:
            end = event
    return Answer(
        "".join(piece.text for piece in pieces) + end.text,
        tuple(piece.token.id for piece in pieces),
        end.reason,
        started.queued_ns,
        started.time_ns,
        end.time_ns,
    )
