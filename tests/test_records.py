"""Records: stored and read without loss, judged by their rule."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat.v4
import pytest

import labkit
from labkit.records import (
    MIME,
    Record,
    bundle,
    describe,
    from_json,
    plain,
    problems,
    records_of,
    to_json,
    verdict,
)

RECORDS = [
    Record("ids", [22007, 6463, 314], "", "exact"),
    Record("shape", [1, 3, 49152], "", "exact"),
    Record("text", "Gravity is", "", "exact"),
    Record("nested", [[1, None], [True, "a"], []], "", "exact"),
    Record("logits", [0.5, -1e-9], "", "close", rtol=1e-4, atol=1e-6),
    Record("speed-up", 4.25, "x", "ratio", low=2.0, high=6.0),
    Record("at least", 4, "x", "ratio", low=2),
    Record("seconds", 1.86, "s"),
    Record("undefined", None, "ms"),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_survives_its_json(record: Record) -> None:
    text = json.dumps(to_json(record), allow_nan=False)
    assert from_json(json.loads(text)) == record


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": " "}, "name must be a text"),
        ({"name": 3}, "name must be a text"),
        ({"unit": None}, "unit must be a text"),
        ({"rule": "strict"}, "the rule must be one of exact, close"),
        ({"rule": ["exact"]}, "the rule must be one of exact, close"),
        ({"value": {"a": 1}}, "a value of type dict"),
        ({"value": [1, [object()]]}, "a value of type object"),
        ({"value": (1, 2)}, "a value of type tuple"),
        ({"rule": "close"}, "needs rtol or atol"),
        ({"rule": "close", "rtol": -1.0}, "rtol must be a number"),
        ({"rule": "close", "rtol": math.nan}, "rtol must be a number"),
        ({"rule": "close", "atol": True}, "atol must be a number"),
        ({"rule": "exact", "rtol": 0.1}, "'close', and no other"),
        ({"rule": "ratio"}, "needs low or high"),
        ({"rule": "info", "low": 1.0}, "'ratio', and no other"),
        ({"rule": "ratio", "low": math.inf}, "low must be a finite"),
        ({"rule": "ratio", "low": 3.0, "high": 2.0}, "low is above high"),
        ({"rule": "ratio", "low": 1.0, "value": [2]}, "one number"),
        ({"rule": "ratio", "low": 1.0, "value": True}, "one number"),
    ],
)
def test_a_record_that_cannot_be_judged(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=r"^Record .*\.$") as caught:
        Record(**{"name": "n", "value": 1.0, **fields})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "A record is a JSON object, not NoneType."),
        ([1], "A record is a JSON object, not list."),
        ({}, "Record '(no name)': name, value, unit, rule missing."),
        (
            {"name": "n", "value": 1, "unit": "", "rule": "close"},
            "Record 'n': rtol, atol missing.",
        ),
        (
            {"name": "n", "value": 1, "unit": "", "rule": "exact", "low": 1},
            "Record 'n': low does not belong to the rule 'exact'.",
        ),
        (
            {"name": "n", "value": 1, "unit": "", "rule": {}},
            "Record 'n': the rule must be one of exact, close, ratio,"
            " info, not {}.",
        ),
    ],
)
def test_json_that_is_no_record(data: object, said: str) -> None:
    with pytest.raises(ValueError, match="ecord") as caught:
        from_json(data)
    assert str(caught.value) == said


@pytest.mark.parametrize("value", [math.nan, [1.0, [math.inf]]])
def test_only_finite_numbers_are_stored(value: object) -> None:
    record = Record("n", value)
    with pytest.raises(ValueError, match="not a finite number; record None"):
        to_json(record)
    data = {"name": "n", "value": value, "unit": "", "rule": "info"}
    with pytest.raises(ValueError, match="not a finite number"):
        from_json(data)


def test_plain_unpacks_what_has_tolist() -> None:
    array = SimpleNamespace(tolist=lambda: [[1, 2]])
    assert plain(array) == [[1, 2]]
    assert plain((1, (array, "a"))) == [1, [[[1, 2]], "a"]]
    assert plain(1.5) == 1.5


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            Record("parameters", 134515008, rule="exact"),
            "parameters: 134,515,008",
        ),
        (Record("rate", 8.60215, "tokens/s"), "rate: 8.602 tokens/s"),
        (Record("rate", 123456.7, "bytes/s"), "rate: 123,457 bytes/s"),
        (Record("ids", [22007, 314]), "ids: [22007, 314]"),
        (
            Record("ids", list(range(20))),
            "ids: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,"
            " and 4 more]",
        ),
        (Record("words", ["a", None, [1.5]]), "words: ['a', None, [1.5]]"),
        (Record("same", True), "same: True"),
        (Record("ttft", None, "ms"), "ttft: None ms"),
        (
            Record("gain", 4.25, "x", "ratio", low=2.0, high=6.0),
            "gain: 4.25 x (inside the expected range, 2 to 6)",
        ),
    ],
)
def test_the_readable_line(record: Record, line: str) -> None:
    assert describe(record) == line
    assert bundle(record) == {MIME: to_json(record), "text/plain": line}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (2.0, 6.0, "inside the expected range, 2 to 6"),
        (4.0, 4.0, "inside the expected range, 4 to 4"),
        (5.0, 6.0, "outside the expected range, 5 to 6"),
        (1.0, 3.0, "outside the expected range, 1 to 3"),
        (5.0, None, "outside the expected range, 5 or more"),
        (None, 4.5, "inside the expected range, 4.5 or less"),
    ],
)
def test_the_verdict_on_a_ratio(
    low: float | None, high: float | None, said: str
) -> None:
    assert verdict(Record("n", 4.0, "", "ratio", low=low, high=high)) == said


def test_no_verdict_on_other_rules() -> None:
    assert verdict(Record("n", 4.0)) is None


def exact(value: object) -> Record:
    return Record("n", value, "", "exact")


def close(value: object, rtol: float = 0.0, atol: float = 0.0) -> Record:
    return Record("n", value, "", "close", rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([1, 2, 3], [1, 2, 4], "n: first difference at [2]: was 3, now 4"),
        ([1, 2, 3], [1, 2], "n: length was 3, now 2"),
        ([[1], [2]], [[1], [3]], "n: first difference at [1][0]: was 2, now"),
        ([[1], [2]], [[1], []], "n: length at [1] was 1, now 0"),
        (16, 17, "n: was 16, now 17"),
        (1, True, "n: was 1, now True"),
        (None, 0, "n: was None, now 0"),
        ("1", 1, "n: was '1', now 1"),
        ([1], 1, "n: was [1], now 1"),
        (math.nan, math.nan, "n: was nan, now nan"),
    ],
)
def test_exact_values_that_differ(
    before: object, now: object, said: str
) -> None:
    (found,) = problems(exact(before), exact(now))
    assert found.startswith(said)


@pytest.mark.parametrize(
    "value", [3, 2.5, "a", None, True, [], [[1, "a"], [None]]]
)
def test_exact_values_that_agree(value: object) -> None:
    assert problems(exact(value), exact(value)) == []


def test_a_whole_number_written_as_a_float_is_the_same() -> None:
    # JavaScript writes 3.0 as 3 when JupyterLab saves a notebook.
    assert problems(exact(3.0), exact(3)) == []


def test_close_is_relative_to_the_committed_value() -> None:
    assert problems(close(100.0, rtol=0.1), close(110.0, rtol=0.1)) == []
    assert problems(close(100.0, rtol=0.1), close(110.1, rtol=0.1)) == [
        "n: was 100.0, now 110.1 (rtol 0.1, atol 0)"
    ]
    assert problems(close(110.1, rtol=0.1), close(100.0, rtol=0.1)) == []


def test_close_adds_both_tolerances() -> None:
    def found(now: float) -> list[str]:
        return problems(close(10.0, 0.1, 0.5), close(now, 0.1, 0.5))

    assert found(11.5) == found(8.5) == []
    assert found(11.51) != []
    assert found(8.49) != []


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [[1.0], 2.0]),
        (math.nan, math.nan),
        (1.0, math.nan),
        (1.0, math.inf),
        (1.0, None),
        ("a", "b"),
        (1.0, True),
    ],
)
def test_what_is_never_close(before: object, now: object) -> None:
    assert problems(close(before, atol=1e6), close(now, atol=1e6))


@pytest.mark.parametrize(
    ("rule", "more"), [("info", {}), ("ratio", {"low": 1.0, "high": 2.0})]
)
def test_what_is_never_judged(rule: Any, more: dict[str, float]) -> None:
    one = Record("n", 1.5, "s", rule, **more)
    assert problems(one, Record("n", 99.0, "s", rule, **more)) == []


@pytest.mark.parametrize(
    "other",
    [
        Record("m", 1.0, "s", "close", rtol=0.1),
        Record("n", 1.0, "ms", "close", rtol=0.1),
        Record("n", 1.0, "s", "close", rtol=0.2),
        Record("n", 1.0, "s", "close", rtol=0.1, atol=0.1),
        Record("n", 1.0, "s", "exact"),
        Record("n", 1.0, "s", "ratio", low=0.0),
    ],
)
def test_what_judges_must_be_the_same(other: Record) -> None:
    one = Record("n", 1.0, "s", "close", rtol=0.1)
    assert problems(one, other)
    assert problems(other, one)
    assert problems(other, other) == []


def notebook_with(*bundles: dict[str, Any]) -> Any:
    outputs = [
        nbformat.v4.new_output("display_data", data=data) for data in bundles
    ]
    outputs.append(
        nbformat.v4.new_output("stream", name="stdout", text="hello")
    )
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# A", id="title"),
            nbformat.v4.new_code_cell("1", id="numbers", outputs=outputs),
            nbformat.v4.new_code_cell("2", id="nothing"),
        ]
    )


def test_the_records_of_a_notebook_by_cell() -> None:
    plot = {"text/plain": "A plot."}
    notebook = notebook_with(plot, *map(bundle, RECORDS))
    assert records_of(notebook) == {"numbers": RECORDS}


def test_a_malformed_record_names_its_cell() -> None:
    notebook = notebook_with({MIME: {"name": "n"}})
    with pytest.raises(ValueError, match=r"^Cell numbers: Record 'n': v"):
        records_of(notebook)


def test_a_bare_interpreter_can_read_records() -> None:
    root = str(Path(labkit.__file__).parents[1])
    code = f"import sys; sys.path[:0] = [{root!r}]; import labkit.records"
    # -S leaves site-packages out.
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
