"""The parser behind the stamp: any cut of any bytes, and any document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.loadtest import sse
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.openai_target import OpenAITarget
from labkit.loadtest.records import Arrival
from labkit.loadtest.targets import Fault, Reading

URL = "http://127.0.0.1:9"
ENDS = (b"\n", b"\r\n", b"\r")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"data: a", b""], [("message", "a")]),
        ([b"data:a", b""], [("message", "a")]),
        ([b"data:  a", b""], [("message", " a")]),
        ([b"data: a", b"data: b", b""], [("message", "a\nb")]),
        ([b": c", b"data: a", b":", b"data: b", b""], [("message", "a\nb")]),
        ([b"event: e", b"data: a", b"", b"data: b", b""],
         [("e", "a"), ("message", "b")]),
        ([b"event: e", b""], []),
        ([b"event: e", b"", b"data: b", b""], [("message", "b")]),
        ([b": only", b"", b""], []),
        ([b"unknown: 5", b"data: a", b"id: 7", b"retry: x", b""],
         [("message", "a")]),
        ([b"data", b""], []),
        ([b"data: a", b"", b"data: cut"], [("message", "a")]),
        ([b"data: a", b"", b"data: cut", b"da"], [("message", "a")]),
        ([b"\xef\xbb\xbfdata: a", b""], [("message", "a")]),
        (["data: 猫\u2028\x85\x0b\x0c!".encode(), b""],
         [("message", "猫\u2028\x85\x0b\x0c!")]),
        ([b"data: \xff", b""], [("message", "�")]),
        ([], []),
    ],
)  # fmt: skip
def test_lines_become_events(
    end: bytes, lines: Sequence[bytes], expected: list[tuple[str, str]]
) -> None:
    data = b"".join(line + end for line in lines)
    assert list(sse.events([data])) == expected
    one_by_one = [data[k : k + 1] for k in range(len(data))]
    assert list(sse.events(one_by_one)) == expected


@pytest.mark.parametrize("end", ENDS)
def test_an_event_is_out_when_its_last_byte_is_in(end: bytes) -> None:
    read = 0

    def chunks() -> Iterator[bytes]:
        nonlocal read
        for _ in range(3):
            for part in (b"data: a", end, end):
                read += 1
                yield part

    seen = []
    for event in sse.events(chunks()):
        seen.append(read)
        assert event == ("message", "a")
    assert seen == [3, 6, 9]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_bytes_say_the_same_however_they_are_cut(
    data: bytes, cuts: list[int]
) -> None:
    assert list(sse.events(cut(data, cuts))) == list(sse.events([data]))


TEXT = st.text(
    st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=8
)


@given(
    st.lists(
        st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), max_size=3
    ),
    st.lists(st.integers(0, 200), max_size=8),
    st.sampled_from(ENDS),
)
def test_what_is_written_is_read(
    written: list[tuple[str, list[str]]], cuts: list[int], end: bytes
) -> None:
    lines = []
    for name, parts in written:
        lines += [f"event: {name}", *(f"data: {part}" for part in parts), ""]
    data = b"".join(line.encode() + end for line in lines)
    expected = [
        (name or "message", "\n".join(parts))
        for name, parts in written
        if "\n".join(parts)
    ]
    assert list(sse.events(cut(data, cuts))) == expected


@pytest.mark.parametrize(
    "data", [b"data: " + b"x" * 999, b"x" * 999, b"data: x\n" * 200]
)
def test_what_is_held_is_bounded(data: bytes) -> None:
    with pytest.raises(sse.EventTooLarge):
        list(sse.events(cut(data, range(0, len(data), 50)), 500))
    whole = (data + b"\n\n",)
    assert list(sse.events(whole, 5000)) or not data.startswith(b"data")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("id", "index", "time_ns", "text", "new_tokens"),
                    *("choices", "delta", "content", "usage", "error"),
                    *("completion_tokens", "token_ids", "message"),
                    *("finish_reason", "timings", "predicted_n"),
                    *("prompt_tokens", "queued_ns", "start_ns", "x"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(["start", "token", "done", "error", "message", "x"])
DATA = JSON.map(json.dumps) | st.text() | st.just("[DONE]")


@pytest.mark.parametrize(
    "reading", [LabTarget(URL).reading, OpenAITarget(URL, "m").reading]
)
@settings(max_examples=300)
@given(events=st.lists(st.tuples(NAMES, DATA), max_size=6))
def test_any_document_is_read_or_is_a_fault(
    reading: Callable[[], Reading], events: list[tuple[str, Any]]
) -> None:
    made = reading()
    arrivals: list[Arrival] = []
    try:
        for k, (name, data) in enumerate(events):
            arrival = made.feed(name, data, k)
            arrivals += [arrival] if arrival else []
        made.check()
    except Fault as fault:
        assert len(fault.message) <= 200
        assert fault.message.isprintable()
    assert made.arrived == sum(a.tokens for a in arrivals)
    for arrival in arrivals:
        assert (arrival.tokens > 0) == (arrival.kind == "token")
        assert all(type(i) is int for i in arrival.ids)
        assert type(arrival.server_ns) in (int, type(None))


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    ends = places[1:] or [len(data)]
    return [data[a:b] for a, b in zip(places, ends, strict=False)]
