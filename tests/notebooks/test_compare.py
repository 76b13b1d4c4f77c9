"""A fresh cell that differs from the committed one is found and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nbformat import v4

from labkit.records import MIME

from .compare import Cell, differences
from .synthetic import cell_of, lesson, stderr

Change = Callable[[Cell], None]

CELLS = [cell.id for cell in lesson().cells if cell.cell_type == "code"]


@pytest.mark.parametrize("cell_id", CELLS)
def test_the_same_outputs_agree(cell_id: str) -> None:
    assert differences(*_pair(cell_id)) == []


def _pair(cell_id: str) -> tuple[Cell, Cell]:
    return cell_of(lesson(), cell_id), cell_of(lesson(), cell_id)


def _record(position: int, **fields: object) -> Change:
    return lambda cell: cell.outputs[position].data[MIME].update(fields)


def _text(position: int, text: str) -> Change:
    return lambda cell: cell.outputs[position].data.update(
        {"text/plain": text}
    )


ERROR = v4.new_output(
    "error", ename="KeyError", evalue="'x'", traceback=["KeyError: 'x'"]
)

FAULTS: list[tuple[str, Change, str]] = [
    (
        "token-ids",
        _record(0, value=[22007, 6464, 314]),
        "ids: first difference at [1]: was 6463, now 6464",
    ),
    ("token-ids", _record(1, value=17), "new tokens: was 16, now 17"),
    ("token-ids", _record(1, unit="words"), "new tokens: unit"),
    ("token-ids", _record(1, rule="info"), "new tokens: rule"),
    ("token-ids", _record(1, name="tokens"), "recorded"),
    ("token-ids", lambda cell: cell.outputs.pop(), "outputs were"),
    ("compare-logits", _record(0, value=[0.5, 1.26]), "logits: first diff"),
    ("compare-logits", _record(0, rtol=0.1), "logits: rtol"),
    ("time-it", _record(1, low=1.0), "speed: low"),
    ("table", _text(0, "3"), "text was ['2'], now ['3']"),
    ("guess", lambda cell: cell.outputs.clear(), "outputs were"),
    ("guess", lambda cell: cell.outputs.append(ERROR), "raised KeyError"),
    (
        "guess",
        lambda cell: cell.outputs.append(stderr("old\n")),
        "wrote to stderr: old",
    ),
    (
        "refusal",
        lambda cell: cell.outputs.__setitem__(0, ERROR),
        "outputs were ['LabError'], now ['KeyError']",
    ),
    (
        "draw",
        lambda cell: cell.outputs[0].data.pop("image/png"),
        "outputs were",
    ),
]


@pytest.mark.parametrize(("cell_id", "change", "said"), FAULTS)
def test_a_difference_is_found_and_its_cell_named(
    cell_id: str, change: Change, said: str
) -> None:
    committed, fresh = _pair(cell_id)
    change(fresh)
    found = differences(committed, fresh)
    assert any(text.startswith(f"{cell_id}: {said}") for text in found), found


@pytest.mark.parametrize(
    ("cell_id", "change"),
    [
        ("time-it", _record(0, value=99.0)),
        ("time-it", _record(1, value=99.0)),
        ("compare-logits", _record(0, value=[0.5, 1.25004])),
        ("guess", lambda cell: cell.outputs[0].update(text="no answer\n")),
    ],
)
def test_what_may_differ(cell_id: str, change: Change) -> None:
    committed, fresh = _pair(cell_id)
    change(fresh)
    assert differences(committed, fresh) == []
