"""What a learner expects, asked before the measurement and kept.

Predictions are by the name of a quantity and in its unit. They lie in one
small file for each lesson, so that a kernel that restarts still has them.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import documents, store
from labkit.errors import LabError

FILE = "predictions.json"
SCHEMA = "labkit.predictions"
VERSION = 1
THOUSANDS = re.compile(r"\+?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
"""A number whose commas may stand between its thousands."""
EITHER = re.compile(r"\+?[1-9]\d{0,2},\d{3}")
"""One whose comma may as well stand before its decimals."""
NUMBER = re.compile(r"\+?[\d.,]*\d")
"""What something that is more than a number begins with."""


@dataclass(frozen=True)
class Question:
    """One number that is asked for: what it is, in words, and its unit."""

    name: str
    text: str
    unit: str


def load(folder: Path) -> dict[str, float]:
    """The predictions kept in a folder; none where there is no file.

    LabError, naming the file, when it is not one of predictions.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    document = documents.read(path)
    try:
        kept = documents.require_schema(document, SCHEMA, VERSION)
        numbers = kept["predictions"]
        return {str(name): float(numbers[name]) for name in numbers}
    except (LabError, KeyError, TypeError, ValueError) as error:
        raise documents.refusal(path, f"{error}") from error


def save(folder: Path, predictions: Mapping[str, float]) -> None:
    """Keep predictions; the file is written whole or not at all."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "predictions": dict(predictions),
    }
    try:
        store.write_text(folder / FILE, json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise LabError(
            f"The prediction could not be kept in {folder.name}"
            f" ({error.strerror or error}): check the disk and its"
            " permissions."
        ) from error


def parse(text: str, unit: str = "") -> float | None:
    """The number in a learner's text, None for nothing.

    1,5 is 1.5, and 1,000,000 a million. The question's own unit may stand
    behind it. LabError, saying what to write, for what is no finite number
    below 0, for another unit, and for 1,000, which some read as one and
    others as a thousand.
    """
    if not text.strip():
        return None
    text = text.strip().removesuffix(unit).strip()
    decimal = text.replace(",", ".")
    whole = text.replace(",", "")
    if EITHER.fullmatch(text):
        raise LabError(
            f"write {whole} or {float(decimal)}: {text} can be both"
        )
    with suppress(ValueError):
        number = float(whole if THOUSANDS.fullmatch(text) else decimal)
        if 0 <= number < math.inf:
            return number
    if NUMBER.match(text):
        asked = f"in {unit}" if unit else "without a sign or a unit"
        raise LabError(f"write a number alone, {asked}")
    raise LabError("write a number of 0 or more, such as 1.5")


def form(
    questions: Mapping[str, Question],
    known: Mapping[str, float],
    keep: Callable[[str, float | None], None],
) -> Any:
    """A box with one text field a question; `keep` gets each answer.

    Fields are reached with Tab; an answer counts when the field is left or
    Enter is pressed.
    """
    import ipywidgets

    rows = [
        _field(question, known.get(name), keep)
        for name, question in questions.items()
    ]
    return ipywidgets.VBox(rows)


def _field(
    question: Question,
    known: float | None,
    keep: Callable[[str, float | None], None],
) -> Any:
    import ipywidgets

    unit = f" ({question.unit})" if question.unit else ""
    label = ipywidgets.Label(question.text + unit)
    said = ipywidgets.Label("" if known is None else f"kept: {known:g}")
    entry = ipywidgets.Text(
        value="" if known is None else f"{known:g}",
        placeholder="your guess",
        continuous_update=False,
        layout={"width": "9em"},
        tooltip=question.text + unit,
    )

    def changed(change: dict[str, Any]) -> None:
        try:
            number = parse(change["new"], question.unit)
            keep(question.name, number)
            said.value = (
                "no prediction" if number is None else f"kept: {number:g}"
            )
        except LabError as error:
            said.value = str(error)

    entry.observe(changed, "value")
    return ipywidgets.VBox([label, ipywidgets.HBox([entry, said])])


def as_text(
    questions: Mapping[str, Question], known: Mapping[str, float]
) -> str:
    """The questions and answers, for a reader without a kernel."""
    return "\n".join(
        f"{q.text}{f' ({q.unit})' if q.unit else ''}: {_answer(name, known)}"
        for name, q in questions.items()
    )


def as_html(
    questions: Mapping[str, Question], known: Mapping[str, float]
) -> str:
    """The same as a list."""
    lines = as_text(questions, known).splitlines()
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<ol>{items}</ol>"


def _answer(name: str, known: Mapping[str, float]) -> str:
    return f"{known[name]:g}" if name in known else "no prediction"
