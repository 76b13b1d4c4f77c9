"""Milestones of an answer; the scanner against the library's decoder."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labkit import usable
from labkit.errors import LabError
from labkit.loadtest.records import Arrival, Record
from labkit.usable import ObjectScanner, Outcome

MS = 1_000_000


def record(
    *texts: str, failure: str | None = None, end: bool = True
) -> Record:
    """A text every 10 ms, each one token, and the end at 500 ms."""
    made = [
        Arrival(k * 10 * MS, "token", (k,), 1, None, text)
        for k, text in enumerate(texts, 1)
    ]
    done = [Arrival(500 * MS, "done")] if end else []
    return Record("r", 0, 600 * MS, arrivals=(*made, *done), failure=failure)


# Moments ---------------------------------------------------------------------


def test_reached_with_the_token_that_brings_the_last_character() -> None:
    answer = record("ab", "", "cd", "e")
    assert usable.text_of(answer) == "abcde"
    found = [usable.reached_ms(answer, n) for n in range(1, 7)]
    assert found == [10, 10, 30, 30, 40, None]
    counts = [usable.tokens_until(answer, n) for n in range(1, 7)]
    assert counts == [1, 1, 3, 3, 4, None]


def test_never_stays_never() -> None:
    assert usable.reached_ms(record("a"), None) is None
    assert usable.tokens_until(record("a"), None) is None


def test_no_character_is_no_milestone() -> None:
    with pytest.raises(LabError, match="0 characters"):
        usable.reached_ms(record("a"), 0)


def test_counted_from_sent() -> None:
    token, done = Arrival(8 * MS, "token", text="a"), Arrival(9 * MS, "done")
    late = Record("r", 7 * MS, 9 * MS, arrivals=(token, done))
    assert usable.reached_ms(late, 1) == 1
    assert usable.whole_ms(late) == 2


def test_tokens_of_a_chunk() -> None:
    chunk = Arrival(8 * MS, "token", (1, 2, 3), 3, None, "abc")
    answer = Record("r", 0, 9 * MS, arrivals=(chunk,))
    assert usable.tokens_until(answer, 1) == 3


def test_whole_with_the_terminal_event() -> None:
    assert usable.whole_ms(record("a", "b")) == 500
    assert usable.whole_ms(record("a", "b", end=False)) is None
    assert usable.whole_ms(record("a", failure="count_mismatch")) is None


# Texts -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("It is. Yes", 7),
        ("It is", None),
        ("It is.", None),
        ("Is it? No.", 7),
        ("Pi is 3.14 and more. ", 21),
        ('"It is!" he said. ', 9),
        ("(It is.) So", 9),
        ("One.\nTwo", 5),
        ("", None),
    ],
)
def test_sentence(text: str, length: int | None) -> None:
    assert usable.sentence_length(text) == length


def test_sentence_at_the_end() -> None:
    assert usable.sentence_length("It is.", ended=True) == 6
    assert usable.sentence_length("It is", ended=True) is None
    assert usable.sentence_length("It is. So.", ended=True) == 7


def test_stop_across_tokens() -> None:
    answer = record("a#", "##", "# b")
    length = usable.stop_length(usable.text_of(answer), "###")
    assert length == 4
    assert usable.reached_ms(answer, length) == 20
    assert usable.stop_length("a##", "###") is None
    with pytest.raises(LabError, match="empty stop"):
        usable.stop_length("a", "")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ('{"a": 1}', (0, 8)),
        ('Sure: {"a": 1} and {"b": 2}', (6, 14)),
        ('```json\n{"a": {}}\n```', (8, 17)),
        ('{name} is {"a": 1}', (10, 18)),
        ('{"a": {"b": 1}', None),
        ('{"a": "}', None),
        ("[1, 2]", None),
        ("", None),
    ],
)
def test_first_object(text: str, span: tuple[int, int] | None) -> None:
    assert usable.object_span(text) == span
    assert usable.object_length(text) == (None if span is None else span[1])


def test_field_before_its_object() -> None:
    text = 'So: {"a": "x", "b": 12'
    found = [usable.field_length(text, name) for name in "abc"]
    assert found == [13, None, None]
    assert usable.field_length(text + "}", "b") == len(text) + 1
    assert usable.field_length('{x} {"a": 1}', "a") == 12


# The scanner -----------------------------------------------------------------


def refuse(name: str) -> NoReturn:
    raise ValueError(name)


DECODER = json.JSONDecoder(parse_constant=refuse)


def decoded(text: str) -> tuple[Any, int] | None:
    """What the library takes at the start of a text, if it is an object."""
    if not text.startswith("{"):
        return None
    try:
        return DECODER.raw_decode(text)
    except ValueError:
        return None


def scanned(*pieces: str) -> ObjectScanner:
    scanner = ObjectScanner()
    for piece in pieces:
        scanner.feed(piece)
    return scanner


def agree_at_every_split(text: str) -> None:
    """The scanner, fed one character after another, and the library."""
    scanner = ObjectScanner()
    broken = False
    for place, character in enumerate(text, 1):
        scanner.feed(character)
        theirs = decoded(text[:place])
        assert (scanner.state == "complete") == (theirs is not None)
        if theirs is not None:
            values = {k: f.value for k, f in scanner.fields.items()}
            assert (values, scanner.length) == theirs
        broken = broken or scanner.state == "broken"
    assert not (broken and decoded(text))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)


@given(OBJECTS, st.sampled_from([None, 1]), st.booleans(), st.text())
def test_valid_objects(
    value: dict[str, Any], indent: int | None, ascii_only: bool, after: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    agree_at_every_split(text + after)
    assert scanned(text).state == "complete"


@given(OBJECTS, st.data())
def test_damaged_objects(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    begin = data.draw(st.integers(1, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    new = data.draw(st.text('{}[],:"\\ 01-+.eEntrufalsuNI\n\x00', max_size=4))
    agree_at_every_split(text[:begin] + new + text[end:])


@given(st.text('{}[],:"\\ 0a1-.eEtrue\n', max_size=25))
@example('"a": 01}')
@example('"a": NaN}')
@example('"a": -Infinity}')
@example('"a": 1,}')
@example('"a": [1,]}')
@example('"a": true false}')
@example('"a": 1"b": 2}')
@example('"a": "\\x"}')
@example('"a": "\\u12"}')
@example('"a": "\n"}')
@example('"a" 1}')
@example('"a": 1:')
@example('"a"}')
@example("a: 1}")
@example(",}")
@example('"a": ]}')
@example('"a": [}')
@example('"a": {]}')
@example('"a": 1, "a": 2}')
@example('"a": "\\ud83d"}')
@example('"a": 1e999}')
@example('"a":\u00a01}')
def test_any_text_behind_a_brace(text: str) -> None:
    agree_at_every_split("{" + text)


@given(OBJECTS, st.lists(st.integers(0, 60)))
def test_pieces_of_any_size(value: dict[str, Any], cuts: list[int]) -> None:
    text = json.dumps(value)
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert scanned(*pieces) == scanned(text)


@given(OBJECTS, OBJECTS)
def test_never_broken_while_it_can_be_mended(
    value: dict[str, Any], more: dict[str, Any]
) -> None:
    text = json.dumps(value | {"more": more})
    scanner = ObjectScanner()
    for character in text:
        scanner.feed(character)
        assert scanner.state != "broken"


def test_fields_as_they_become_complete() -> None:
    text = '{"a": "x, \\"y\\"", "n": 34, "l": [1, {"q": 2}], "t": true}'
    found = scanned(text).fields
    whole = json.loads(text)
    assert {name: each.value for name, each in found.items()} == whole
    ends = {name: text[: each.length] for name, each in found.items()}
    assert ends["a"].endswith('\\""')
    assert ends["n"].endswith("34,")
    assert ends["l"].endswith("}]")
    assert ends["t"].endswith("true}")


def test_a_number_is_not_complete_while_a_digit_may_come() -> None:
    assert scanned('{"age": 3').fields == {}
    assert scanned('{"age": 34').fields == {}
    assert scanned('{"age": 34 ').fields["age"].value == 34


def test_fields_of_inner_objects_are_not_its_own() -> None:
    assert [*scanned('{"a": {"b": 1, "c": 2').fields] == []
    assert [*scanned('{"a": [{"b": 1}], "d').fields] == ["a"]


@pytest.mark.parametrize(
    "text", ["x", " ", "{,", '{"a"}', '{"a": }', '{"a": 1 2', '{"a": tru}']
)
def test_broken_at_once(text: str) -> None:
    assert scanned(text[:-1]).state == "open"
    assert scanned(text).state == "broken"
    assert scanned(text, '": 1}').state == "broken"


def test_what_follows_is_left_alone() -> None:
    scanner = scanned('{"a": 1}', "}}}", "{")
    assert (scanner.state, scanner.length) == ("complete", 8)


def test_too_deep_is_broken() -> None:
    deep = '{"a": ' * usable.MAX_DEPTH
    assert scanned(deep).state == "open"
    assert scanned(deep, "{").state == "broken"


# Many tasks ------------------------------------------------------------------


def test_time_per_usable_answer() -> None:
    tasks = [Outcome(100, 100), Outcome(300, None), Outcome(200, 200)]
    assert usable.ms_per_usable(tasks) == 300
    assert usable.ms_per_usable([Outcome(300, None)]) is None
    assert usable.ms_per_usable([]) is None


def test_share_within_a_limit() -> None:
    tasks = [Outcome(100, 100), Outcome(50, None), Outcome(200, 200)]
    found = [usable.share_within(tasks, limit) for limit in (99, 100, 1000)]
    assert found == pytest.approx([0, 1 / 3, 2 / 3])
    assert usable.share_within([], 100) is None


def test_an_object_within_an_open_one_is_not_the_answer() -> None:
    assert usable.object_span('{"items": [{"x": 1}, {"x": 2') is None
    assert usable.object_span('{ no object. {"x": 1} ') == (13, 21)
