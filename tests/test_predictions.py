"""Predictions: parsed, kept between kernels, asked by a widget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit import predictions
from labkit.errors import LabError
from labkit.predictions import Question

QUESTIONS = {
    "ratio": Question("ratio", "Times as long", ""),
    "time_s": Question("time_s", "An answer takes", "s"),
}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("", None),
            ("  ", None),
            ("2", 2),
            (" 1.5 ", 1.5),
            ("1,5", 1.5),
            ("0", 0),
        ),
        *(("1,000,000", 1e6), ("1,500.5", 1500.5), ("0,500", 0.5)),
        ("1234,567", 1234.567),
    ],
)
def test_numbers_as_people_write_them(text: str, number: object) -> None:
    assert predictions.parse(text) == number


@pytest.mark.parametrize(
    "text", ["many", "nan", "inf", "1 2", "1.2.3", "1,000", "1,2,3", "-3"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(LabError, match=r"write (a number|1000)"):
        predictions.parse(text)


def test_the_units_of_a_number() -> None:
    assert predictions.parse("95 %", "%") == 95
    assert predictions.parse("3.5s", "s") == 3.5
    with pytest.raises(LabError, match="without a sign or a unit"):
        predictions.parse("95 %")
    with pytest.raises(LabError, match="alone, in s"):
        predictions.parse("95 ms", "s")
    with pytest.raises(LabError, match="a number of 0 or more, such as"):
        predictions.parse("s", "s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,000", "write 1000 or 1.0: 1,000 can be both"),
        ("12,345 s", "write 12345 or 12.345: 12,345 can be both"),
        ("abc,def", "write a number of 0 or more, such as 1.5"),
    ],
)
def test_a_comma_is_said_to_be_what_it_may_be(text: str, said: str) -> None:
    with pytest.raises(LabError) as caught:
        predictions.parse(text, "s")
    assert str(caught.value) == said


def test_kept_between_kernels(tmp_path: Path) -> None:
    assert predictions.load(tmp_path / "new") == {}
    predictions.save(tmp_path / "new", {"ratio": 8.0})
    assert predictions.load(tmp_path / "new") == {"ratio": 8.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "labkit.result", "version": 1, "predictions": {}}',
        '{"schema": "labkit.predictions", "version": 9, "predictions": {}}',
        '{"schema": "labkit.predictions", "version": 1}',
        '{"schema": "labkit.predictions", "version": 1, '
        '"predictions": {"a": "many"}}',
    ],
)
def test_a_foreign_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / predictions.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"predictions\.json was not read"):
        predictions.load(tmp_path)


def entries(form: Any) -> list[Any]:
    return [row.children[1].children[0] for row in form.children]


def words(form: Any) -> list[str]:
    return [row.children[1].children[1].value for row in form.children]


def test_the_form_keeps_numbers_and_says_what_is_wrong() -> None:
    kept: dict[str, float | None] = {}
    form = predictions.form(QUESTIONS, {"time_s": 2.0}, kept.__setitem__)
    first, second = entries(form)
    assert (first.value, second.value) == ("", "2")
    first.value = "4,5"
    assert kept == {"ratio": 4.5}
    assert words(form) == ["kept: 4.5", "kept: 2"]
    first.value = "many"
    assert kept == {"ratio": 4.5}
    assert words(form)[0] == "write a number of 0 or more, such as 1.5"
    first.value = ""
    assert kept == {"ratio": None}


def test_a_disk_that_refuses_is_said_in_the_form() -> None:
    def refuse(*_: object) -> None:
        raise LabError("The prediction could not be kept.")

    form = predictions.form(QUESTIONS, {}, refuse)
    entries(form)[0].value = "3"
    assert words(form)[0] == "The prediction could not be kept."


def test_a_reader_without_a_kernel_sees_the_questions() -> None:
    text = predictions.as_text(QUESTIONS, {"time_s": 2.5})
    assert text.splitlines() == [
        "Times as long: no prediction",
        "An answer takes (s): 2.5",
    ]
    page = predictions.as_html({"a": Question("a", "x < y", "s")}, {})
    assert "x &lt; y (s)" in page
