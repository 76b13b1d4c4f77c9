"""What is read from a submission, and where a learner's cells go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.exercises.submission import (
    merge,
    read_submission,
    remarks,
    require_lesson,
)


def laid_out(course: Any, nb: Any, path: Path) -> list[tuple[str, str]]:
    """Kind and name of each step, in order."""
    cells = read_submission(course.hand_in(path / "s.ipynb", nb))
    return [(s.kind, s.name) for s in merge(course.source, cells)]


PLAIN = [
    ("given", "given"),
    ("own", "double"),
    ("test", "test_double"),
    ("test", "test_refused"),
    ("own", "names"),
    ("test", "test_names"),
]


def test_answers_stand_between_the_source_s_own_cells(
    course: Any, tmp_path: Path
) -> None:
    assert laid_out(course, course.solved(), tmp_path) == PLAIN


def test_the_tests_are_the_source_s_with_the_hidden_part(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    course.cell(nb, "test_double").source = "pass"
    cells = read_submission(course.hand_in(tmp_path / "s.ipynb", nb))
    tests = {s.name: s.source for s in merge(course.source, cells)}
    assert "SECRET" in tests["test_double"]


def test_a_helper_stays_where_the_learner_put_it(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    nb.cells.insert(4, course.own_cell("after = 'double'"))
    nb.cells.insert(3, course.own_cell("before = 'double'"))
    nb.cells.insert(0, course.own_cell("first = 1"))
    nb.cells.append(course.own_cell("last = 1"))
    steps = laid_out(course, nb, tmp_path)
    assert [name for _, name in steps] == [
        "cell 1",
        "given",
        "cell 5",
        "double",
        "cell 7",
        "test_double",
        "test_refused",
        "names",
        "test_names",
        "cell 13",
    ]


def test_a_copied_test_does_not_move_its_neighbours(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    nb.cells.insert(0, course.pasted(course.cell(nb, "test_names")))
    nb.cells.insert(1, course.own_cell("helper = 1"))
    steps = laid_out(course, nb, tmp_path)
    assert steps == [("own", "cell 2"), *PLAIN]


def test_answers_moved_elsewhere_come_back_to_their_place(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    nb.cells.reverse()
    steps = laid_out(course, nb, tmp_path)
    assert steps == PLAIN


def test_cells_with_a_test_s_metadata_are_left_out(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    course.cell(nb, "test_names").metadata["nbgrader"]["grade_id"] = "mine"
    assert laid_out(course, nb, tmp_path) == PLAIN


def test_what_was_changed_is_told(course: Any, tmp_path: Path) -> None:
    nb = course.solved()
    course.cell(nb, "test_double").source = "pass"
    course.cell(nb, "names").metadata["nbgrader"]["grade_id"] = "mine"
    nb.cells.append(course.pasted(course.cell(nb, "double")))
    nb.cells = [c for c in nb.cells if c.id != "test_refused"]
    cells = read_submission(course.hand_in(tmp_path / "s.ipynb", nb))
    assert list(remarks(course.source, cells)) == [
        "Cell double occurs 2 times.",
        "Cell test_double was edited; the original counts.",
        "Cell test_refused is missing; the original counts.",
        "Cell names is missing; it was not answered.",
        "Cell mine is none of this lesson's.",
    ]


def test_nothing_is_told_of_an_honest_submission(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    nb.cells.append(course.own_cell("print(1)"))
    cells = read_submission(course.hand_in(tmp_path / "s.ipynb", nb))
    assert list(remarks(course.source, cells)) == []


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{cells: ",
    "a list": b"[1, 2]",
    "a number": b"1e999",
    "no cells": b'{"nbformat": 4}',
    "old": b'{"nbformat": 3, "worksheets": []}',
    "cells no list": b'{"nbformat": 4, "cells": {"a": 1}}',
    "empty": b'{"nbformat": 4, "cells": []}',
    "blank": b'{"nbformat": 4, "cells": [{"source": " "}]}',
    "odd cells": b'{"nbformat": 4, "cells": [1, null, {"source": {"a": 1}}]}',
    "not UTF-8": b'{"nbformat": 4, "cells": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_is_no_notebook_is_one_sentence(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "ann.ipynb"
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"ann\.ipynb is (not|empty)"):
        read_submission(path)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="There is no file"):
        read_submission(tmp_path / "ann.ipynb")


def test_odd_cells_beside_good_ones_are_left_out(
    course: Any, tmp_path: Path
) -> None:
    path = course.hand_in(tmp_path / "s.ipynb", course.solved())
    document = json.loads(path.read_text(encoding="utf-8"))
    document["cells"][0]["metadata"] = ["not", "a", "dictionary"]
    document["cells"][1]["metadata"] = {"nbgrader": 7}
    document["cells"] += [None, 3, {}, {"cell_type": "code", "source": 1}]
    text = "\ufeff" + json.dumps(document)
    path.write_text(text, encoding="utf-8")
    cells = read_submission(path)
    assert [(s.kind, s.name) for s in merge(course.source, cells)] == PLAIN


def test_another_lesson_s_notebook_is_refused(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    for number, cell in enumerate(nb.cells):
        cell.metadata.pop("nbgrader", None)
        cell.source = f"other_{number} = 1"
    path = course.hand_in(tmp_path / "s.ipynb", nb)
    with pytest.raises(
        LabError, match="no cell of the exercises of lesson 07"
    ):
        require_lesson(course.source, read_submission(path), path)


def test_a_notebook_whose_cells_lost_their_ids_is_told_so(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved()
    for cell in nb.cells:
        cell.metadata.pop("nbgrader", None)
    path = course.hand_in(tmp_path / "s.ipynb", nb)
    with pytest.raises(LabError, match="its cells have lost their ids"):
        require_lesson(course.source, read_submission(path), path)
