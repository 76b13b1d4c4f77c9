"""When something can act on an answer: pure functions of what arrived.

What is needed of an answer is complete once so many of its characters have
arrived. Functions of a text give that number of characters, those of a
record the moment at which they were there. What never came is None.
Standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from labkit.errors import LabError
from labkit.loadtest.records import Arrival, Record

SENTENCE = re.compile(r"[.!?][\"')\]]*\s")
LAST_SENTENCE = re.compile(r"[.!?][\"')\]]*$")
WHITESPACE = " \t\n\r"
MAX_DEPTH = 100
"""Objects that are nested deeper are taken for broken."""
COLON, COMMA, CLOSE, NAME, VALUE = (
    frozenset({each}) for each in ("colon", "comma", "close", "name", "value")
)


# Moments of a record --------------------------------------------------------


def text_of(record: Record) -> str:
    """All text of an answer, as it arrived."""
    return "".join(arrival.text for arrival in record.arrivals)


def reached_ms(record: Record, length: int | None) -> float | None:
    """When the first `length` characters had arrived, in ms since sent.

    None when they never did, and for a length of None.
    """
    arrival = _reached(record, length)
    if arrival is None:
        return None
    return (arrival.time_ns - record.sent_ns) / 1e6


def tokens_until(record: Record, length: int | None) -> int | None:
    """How many tokens brought the first `length` characters."""
    last = _reached(record, length)
    if last is None:
        return None
    count = 0
    for arrival in record.arrivals:
        count += arrival.tokens
        if arrival is last:
            break
    return count


def whole_ms(record: Record) -> float | None:
    """When the answer was known to be over: its terminal event, since sent.

    None for a request that failed. The last token does not say that it is
    the last.
    """
    done = [a.time_ns for a in record.arrivals if a.kind == "done"]
    if not record.ok or not done:
        return None
    return (done[0] - record.sent_ns) / 1e6


def _reached(record: Record, length: int | None) -> Arrival | None:
    if length is None:
        return None
    if length < 1:
        raise LabError(f"{length} characters are no milestone: ask for 1.")
    there = 0
    for arrival in record.arrivals:
        there += len(arrival.text)
        if there >= length:
            return arrival
    return None


# What has to be there -------------------------------------------------------


def sentence_length(text: str, *, ended: bool = False) -> int | None:
    """Characters until the first sentence is known to be complete.

    A sentence ends with a full stop, a question or an exclamation mark,
    and quotes or brackets behind it, before white space; the white space
    is counted, for without it "3." could become 3.14. If the answer has
    `ended`, its end will do; that this is so is known at `whole_ms` only.
    An abbreviation is taken for an end.
    """
    found = SENTENCE.search(text)
    if found is None and ended:
        found = LAST_SENTENCE.search(text)
    return found.end() if found else None


def stop_length(text: str, stop: str) -> int | None:
    """Characters until all of the string `stop` has arrived."""
    if not stop:
        raise LabError("An empty stop string stops nothing: give text.")
    place = text.find(stop)
    return None if place < 0 else place + len(stop)


def object_length(text: str) -> int | None:
    """Characters until the first JSON object in the text is complete.

    Text before it (a sentence, a fence) is passed over, and so is a brace
    that begins no object.
    """
    span = object_span(text)
    return None if span is None else span[1]


def object_span(text: str) -> tuple[int, int] | None:
    """Begin and end of the first JSON object, if it is complete.

    While one is still open, the objects within it are none of their own.
    """
    begin = text.find("{")
    while begin >= 0:
        scanner = ObjectScanner()
        scanner.feed(text[begin:])
        if scanner.state == "complete":
            return begin, begin + scanner.length
        if scanner.state == "open":
            return None
        begin = text.find("{", begin + 1)
    return None


def field_length(text: str, name: str) -> int | None:
    """Characters until a field of the first object with it is complete.

    The object itself need not be.
    """
    begin = text.find("{")
    while begin >= 0:
        scanner = ObjectScanner()
        scanner.feed(text[begin:])
        if name in scanner.fields:
            return begin + scanner.fields[name].length
        begin = text.find("{", begin + 1)
    return None


# A JSON object that is still arriving ---------------------------------------


@dataclass(frozen=True)
class Field:
    """A field of an object, complete once `length` characters were there."""

    value: Any
    length: int


@dataclass
class ObjectScanner:
    """Reads a JSON object as its text arrives, in pieces of any size.

    The text begins with the object's brace. `state` is "complete" from the
    character on with which `json.JSONDecoder.raw_decode` takes the text
    (RFC 8259: no NaN and no infinities, which that decoder can refuse), and
    "broken" once nothing that follows could mend it; a string, a number or
    a word is judged when it is over. `length` counts the characters up to
    there. `fields` has those of the object itself as soon as each is
    complete: a string with its closing quote, a number or a word with the
    character behind it, for until then another digit could come. A name
    that is given twice has its last value.
    """

    state: Literal["open", "complete", "broken"] = "open"
    length: int = 0
    fields: dict[str, Field] = field(default_factory=dict)
    _text: str = ""
    _closers: list[str] = field(default_factory=list)
    """What closes the containers that are open, the innermost last."""
    _next: frozenset[str] = frozenset({"begin"})
    """What may come next."""
    _scalar: str = ""
    """What there is of a string, a number or a word."""
    _escaped: bool = False
    _name: str = ""
    _value_at: int = 0

    def feed(self, text: str) -> None:
        """Take more text; what follows the object is left alone."""
        for character in text:
            if self.state != "open":
                return
            self.length += 1
            self._text += character
            self._take(character)

    def _take(self, character: str) -> None:
        if self._scalar.startswith('"'):
            self._in_string(character)
        elif self._scalar and character not in WHITESPACE + ",:]}":
            self._scalar += character
        else:
            if self._scalar:
                self._end_value(self._decoded())
            if self.state == "open":
                self._structure(character)

    def _in_string(self, character: str) -> None:
        self._scalar += character
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"' and "name" in self._next:
            name, self._next = self._decoded(), COLON
            if len(self._closers) == 1:
                self._name = name
        elif character == '"':
            self._end_value(self._decoded())

    def _structure(self, character: str) -> None:
        """Take a character outside of strings, numbers and words."""
        closer = self._closers[-1] if self._closers else ""
        if character in WHITESPACE and closer:
            return
        if character == ":" and "colon" in self._next:
            self._next = VALUE
        elif character == "," and "comma" in self._next:
            self._next = NAME if closer == "}" else VALUE
        elif character == closer and "close" in self._next:
            self._close()
        elif character == "{" and self._next & {"begin", "value"}:
            self._open("}", NAME | CLOSE)
        elif character == "[" and "value" in self._next:
            self._open("]", VALUE | CLOSE)
        elif _begins(character) & self._next:
            self._begin(character)
        else:
            self.state = "broken"

    def _begin(self, character: str) -> None:
        self._scalar = character
        self._mark()

    def _open(self, closer: str, following: frozenset[str]) -> None:
        self._mark()
        self._closers.append(closer)
        self._next = following
        if len(self._closers) > MAX_DEPTH:
            self.state = "broken"

    def _mark(self) -> None:
        if len(self._closers) == 1:
            self._value_at = self.length - 1

    def _close(self) -> None:
        self._closers.pop()
        if self._closers:
            self._end_value(None)
        else:
            self.state = "complete"

    def _end_value(self, value: Any) -> None:
        """A value is over; `value` is None for what was in brackets."""
        self._next = COMMA | CLOSE
        if len(self._closers) == 1 and self.state == "open":
            if self._text[self._value_at] in "[{":
                value = json.loads(self._text[self._value_at :])
            self.fields[self._name] = Field(value, self.length)

    def _decoded(self) -> Any:
        """The value of a string, a number or a word that is over."""
        scalar, self._scalar = self._scalar, ""
        try:
            return json.loads(scalar, parse_constant=_refuse)
        except ValueError:
            self.state = "broken"
            return None


def _begins(character: str) -> frozenset[str]:
    """What begins with a character that is no bracket."""
    if character == '"':
        return NAME | VALUE
    return frozenset() if character in ",:]}{[" else VALUE


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Many tasks -----------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one task, over all its rounds, in ms since it began.

    `usable_ms` is when there was an answer that could be used, None for
    never; `spent_ms` is until then, or until it was given up.
    """

    spent_ms: float
    usable_ms: float | None


def ms_per_usable(outcomes: Sequence[Outcome]) -> float | None:
    """All time that was spent / usable answers; None where there is none.

    Tasks that never came to an answer are in the numerator alone.
    """
    usable = sum(each.usable_ms is not None for each in outcomes)
    spent = sum(each.spent_ms for each in outcomes)
    return spent / usable if usable else None


def share_within(outcomes: Sequence[Outcome], limit_ms: float) -> float | None:
    """The share of all tasks that had a usable answer by `limit_ms`."""
    if not outcomes:
        return None
    times = [each.usable_ms for each in outcomes]
    return sum(t is not None and t <= limit_ms for t in times) / len(outcomes)
