from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from labkit import documents
from labkit.errors import LabError


@dataclass(frozen=True)
class Inner:
    number: float


@dataclass(frozen=True)
class Outer:
    name: str
    count: int
    inner: tuple[Inner, ...]


GOOD = {"name": "n", "count": 2, "inner": [{"number": 1.5}, {"number": 1}]}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("{} {}", "not JSON"),
        ("[1]", "not a JSON object"),
        ("3", "not a JSON object"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": ' + "9" * 400 + "}", "9999"),
        ('{"a": ' + "9" * 5000 + "}", "9999"),
        ('{"a": 1, "b": 2, "a": 1}', "'a' occurs twice"),
        ('{"a": {"b": 1, "b": 2}}', "'b' occurs twice"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_one_plain_json_object_is_refused(
    text: str, word: str
) -> None:
    with pytest.raises(LabError, match=word):
        documents.parse(text)


def test_a_document_becomes_its_dataclass() -> None:
    made = documents.decode(Outer, GOOD)
    assert made == Outer("n", 2, (Inner(1.5), Inner(1.0)))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"count": 2.0}, "count"),
        ({"count": "2"}, "count"),
        ({"count": True}, "count"),
        ({"count": None}, "count"),
        ({"name": 3}, "name"),
        ({"inner": {}}, "inner"),
        ({"inner": [{"number": "1"}]}, "inner.0.number"),
        ({"inner": [{"number": 1}, {"number": True}]}, "inner.1.number"),
    ],
)
def test_the_first_wrong_field_is_named(
    change: dict[str, object], place: str
) -> None:
    with pytest.raises(LabError, match=rf"^{place}: "):
        documents.decode(Outer, {**GOOD, **change})


@pytest.mark.parametrize("field", GOOD)
def test_no_field_may_be_missing(field: str) -> None:
    rest = {name: GOOD[name] for name in GOOD if name != field}
    with pytest.raises(LabError, match=rf"^it lacks '{field}'$"):
        documents.decode(Outer, rest)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"extra": 1}, "it has an unknown field 'extra'"),
        (
            {"inner": [{"number": 1, "more": 1}]},
            "inner.0 has an unknown field 'more'",
        ),
        ({"inner": [{}]}, "inner.0 lacks 'number'"),
        (
            {"name": "\ud800"},
            "it holds a text that is not Unicode, or is nested too deeply",
        ),
    ],
)
def test_faults_are_told_in_plain_words(
    change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(LabError) as caught:
        documents.decode(Outer, {**GOOD, **change})
    assert str(caught.value) == sentence


def test_the_schema_is_checked_and_taken_off() -> None:
    document = {"schema": "s", "version": 1, "a": 2}
    assert documents.require_schema(document, "s", 1) == {"a": 2}
    assert document["schema"] == "s"


@pytest.mark.parametrize(
    ("head", "word"),
    [
        ({}, "not a s document"),
        ({"schema": "t", "version": 1}, "not a s document"),
        ({"schema": "s"}, "version None"),
        ({"schema": "s", "version": 2}, "version 2"),
        ({"schema": "s", "version": True}, "version True"),
        ({"schema": "s", "version": "1"}, "version '1'"),
        ({"schema": "s", "version": [1]}, "version"),
    ],
)
def test_another_schema_is_refused(head: dict[str, object], word: str) -> None:
    with pytest.raises(LabError, match=word):
        documents.require_schema(head, "s", 1)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe{}", b'{"a": "\xe9"}', b"", b"\x00" * 10]
)
def test_an_unreadable_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"odd\.json was not read"):
        documents.read(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"none\.json was not read"):
        documents.read(tmp_path / "none.json")
    with pytest.raises(LabError, match="was not read"):
        documents.read(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), b"x"])
def test_what_json_cannot_hold_is_not_written(value: object) -> None:
    with pytest.raises(LabError, match="cannot be saved"):
        documents.to_text({"a": value})


def test_texts_of_any_script_survive() -> None:
    document = {"a": "é日本\u2028\ud800\U0001f600"}
    assert documents.parse(documents.to_text(document)) == document
