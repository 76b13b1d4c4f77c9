"""Text from ids: nothing is taken back, and nothing broken is shown."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from labkit.generation import Token
from labkit.serving.interface import Done, Event, Failed, Queued, Started
from labkit.serving.protocol import GenerateRequest, Refusal
from labkit.serving.text import (
    BROKEN,
    Detokenizer,
    End,
    Piece,
    StopStrings,
    collect,
    read,
)


def decode(ids: Sequence[int]) -> str:
    return bytes(ids).decode("utf-8", "replace")


def texts(data: bytes) -> list[str]:
    detokenizer = Detokenizer(decode)
    return [detokenizer.feed(byte) for byte in data]


def test_a_character_is_shown_when_it_is_whole() -> None:
    assert texts("aé\U0001f600b".encode()) == [
        *("a", "", "é"),
        *("", "", "", "\U0001f600"),
        "b",
    ]


def test_half_a_character_at_the_end_is_not_shown() -> None:
    assert "".join(texts("ab\U0001f600".encode()[:-1])) == "ab"


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert "".join(texts(b"a\xffb\xe2\x82c")) == f"a{BROKEN}b{BROKEN}c"


def test_any_bytes_give_what_decoding_at_once_gives() -> None:
    source = random.Random(1)
    alphabet = [*"aé€\U0001f600".encode(), 0x80, 0xC3, 0xE2, 0xF0, 0xFF, 0x41]
    for _ in range(300):
        data = bytes(source.choices(alphabet, k=source.randrange(1, 24)))
        shown = "".join(texts(data))
        assert decode(data).removesuffix(BROKEN) == shown, data


@pytest.mark.parametrize(
    ("parts", "shown", "rest"),
    [
        (["abc"], ["abc"], ""),
        (["ab", "END", "cd"], ["ab", "", ""], ""),
        (["abE", "N", "Dcd"], ["ab", "", ""], ""),
        (["abE", "NE", "ND"], ["ab", "EN", ""], ""),
        (["abE", "x"], ["ab", "Ex"], ""),
        (["abEN"], ["ab"], "EN"),
        (["a\n", "\n\n"], ["a", ""], ""),
        (["xENDy\n\n"], ["x"], ""),
    ],
)
def test_stop_strings(parts: list[str], shown: list[str], rest: str) -> None:
    strings = StopStrings(["END", "\n\n"])
    assert [strings.feed(part) for part in parts] == shown
    assert strings.rest() == rest


class Scripted:
    """A stream whose events are given."""

    def __init__(self, events: list[Event]) -> None:
        self.request = GenerateRequest((1,), 9)
        self.events = events
        self.stopped = False

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def stop(self) -> None:
        self.stopped = True

    def cancel(self) -> None:
        raise AssertionError("not here")


def stream(data: bytes, end: Event) -> Any:
    tokens = [Token(byte, 10 + k) for k, byte in enumerate(data)]
    return Scripted([Queued(1, 0), Started(2, 1), *tokens, end])


def test_a_whole_answer() -> None:
    whole = collect(read(stream(b"ab\xc3", Done(99, "length")), decode))
    assert not isinstance(whole, Failed)
    assert (whole.text, whole.ids) == ("ab", (97, 98, 195))
    assert (whole.queued_ns, whole.start_ns, whole.end_ns) == (1, 2, 99)
    assert whole.reason == "length"


def test_reading_ends_at_a_stop_string() -> None:
    scripted = stream(b"abcdef", Done(99, "length"))
    events = list(read(scripted, decode, ["cd"]))
    assert scripted.stopped
    shown = [each.text for each in events if isinstance(each, Piece)]
    assert shown == ["a", "b", "", ""]
    assert events[-1] == End(99, "stop", "")


def test_what_waited_for_a_stop_string_comes_at_the_end() -> None:
    events = list(read(stream(b"abc", Done(99, "length")), decode, ["cd"]))
    assert events[-1] == End(99, "length", "c")


def test_a_failure_is_passed_on() -> None:
    failed = Failed(99, Refusal(504, "deadline_exceeded", "Too late."))
    assert collect(read(stream(b"abc", failed), decode)) is failed
