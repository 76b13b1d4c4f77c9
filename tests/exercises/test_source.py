"""Student copies, and what a well-formed source has."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.exercises.source import (
    exercises_of,
    load_source,
    replace_regions,
    student_copy,
)
from labkit.exercises.validation import validate_source

MARKERS = ("### BEGIN X", "### END X")


def test_a_region_becomes_the_stub_with_its_indentation() -> None:
    text = "def f():\n    ### BEGIN X\n    return 1\n    ### END X\n# end"
    new, count = replace_regions(text, MARKERS, ("# a", "raise b"))
    assert new == "def f():\n    # a\n    raise b\n# end"
    assert count == 1


@pytest.mark.parametrize(
    "text",
    [
        "### BEGIN X\n1",
        "1\n### END X",
        "### BEGIN X\n### BEGIN X\n### END X",
        "### END X\n### BEGIN X",
    ],
)
def test_markers_out_of_order_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"### (BEGIN|END) X"):
        replace_regions(text, MARKERS)


def test_the_student_copy_holds_no_solution_and_no_hidden_test(
    make_toy: Callable[..., Any],
) -> None:
    toy = make_toy(with_manual=True)
    source = toy.source
    toy.cell(source, "double").outputs = [{"output_type": "stream"}]
    before = copy.deepcopy(source)
    made = student_copy(source)

    assert source == before
    text = "\n".join(cell.source for cell in made.cells)
    for secret in (
        "SECRET",
        "scale(number)\n    #",
        "Because",
        "BEGIN",
        "END",
    ):
        assert secret not in text
    assert toy.cell(made, "double").source == (
        "def double(number):\n"
        "    # YOUR CODE HERE\n"
        "    raise NotImplementedError()"
    )
    assert toy.cell(made, "test_double").source == (
        '# test_double\nassert int(double(4)) == 8, "4 was not doubled"'
    )
    assert "YOUR ANSWER HERE" in toy.cell(made, "why").source
    assert toy.cell(made, "double").outputs == []


def test_locked_cells_can_be_neither_edited_nor_deleted(course: Any) -> None:
    made = student_copy(course.source)
    locks = {
        cell.id: (
            cell.metadata.get("editable", True),
            cell.metadata.get("deletable", True),
        )
        for cell in made.cells
    }
    for name in ("given", "test_double", "test_refused", "test_names"):
        assert locks[name] == (False, False)
    assert locks["double"] == (True, False)
    assert locks["title"] == (True, True)


def test_exercises_have_title_points_and_minutes(course: Any) -> None:
    found = [
        (e.title, e.points, e.minutes) for e in exercises_of(course.source)
    ]
    assert found == [("Exercise 1: double", 3, 5), ("Exercise 2: names", 3, 5)]


def test_a_lesson_without_exercises_is_named_with_those_that_have(
    course: Any,
) -> None:
    with pytest.raises(LabError, match=r"lesson 08.*have some: 07"):
        load_source("8", course.root)
    with pytest.raises(LabError, match="give its number"):
        load_source("../07", course.root)


def test_a_damaged_source_is_a_sentence(course: Any) -> None:
    path = next((course.root / "exercises").glob("*.ipynb"))
    path.write_text('{"cells": [', encoding="utf-8")
    with pytest.raises(LabError, match=r"07_toy\.ipynb cannot be read"):
        load_source(7, course.root)


def test_a_good_source_has_no_problems(make_toy: Callable[..., Any]) -> None:
    assert validate_source(make_toy(with_manual=True).source) == []


def spoil_marks(name: str, **changes: object) -> Callable[[Any, Any], None]:
    def spoil(toy: Any, nb: Any) -> None:
        toy.cell(nb, name).metadata["nbgrader"].update(changes)

    return spoil


def spoil_text(name: str, old: str, new: str) -> Callable[[Any, Any], None]:
    def spoil(toy: Any, nb: Any) -> None:
        cell = toy.cell(nb, name)
        assert old in cell.source
        cell.source = cell.source.replace(old, new)

    return spoil


def no_kernel(toy: Any, nb: Any) -> None:
    del nb.metadata["kernelspec"]


def graded_prose(toy: Any, nb: Any) -> None:
    cell = toy.cell(nb, "one")
    cell.metadata["nbgrader"] = toy.cell(nb, "test_names").metadata.nbgrader


def bare_code(toy: Any, nb: Any) -> None:
    nb.cells.append(toy.own_cell("1"))


def outputs(toy: Any, nb: Any) -> None:
    toy.cell(nb, "given").outputs = [
        {"output_type": "stream", "name": "stdout", "text": "1"}
    ]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_marks("test_names", grade_id="double"), "is used 2 times"),
        (spoil_marks("double", grade_id="a b"), "letters, digits"),
        (spoil_marks("double", schema_version=2), "schema_version"),
        (spoil_marks("double", locked=True), "are locked"),
        (spoil_marks("double", task=True), "task"),
        (spoil_marks("double", cell_type="markdown"), "cell_type"),
        (spoil_marks("test_names", points=0), "not positive"),
        (spoil_marks("test_names", points="3"), "points are missing"),
        (spoil_text("double", "### BEGIN SOLUTION", ""), "without a begin"),
        (spoil_text("names", "### ", "# "), "without a solution"),
        (
            spoil_text(
                "given", "FACTOR = 2", "### BEGIN SOLUTION\n### END SOLUTION"
            ),
            "does not belong",
        ),
        (spoil_text("test_double", ', "4 was not doubled"', ""), "no message"),
        (
            spoil_text("test_names", "assert len", "assert (len"),
            "valid Python",
        ),
        (spoil_text("given", "FACTOR", "%time FACTOR"), "valid Python"),
        (spoil_text("test_names", "### BEGIN HIDDEN TESTS\n", ""), "without"),
        (spoil_text("one", "**Checked.**", "**Tests.**"), "lacks"),
        (spoil_text("two", "About 5 minutes", "Short"), "minutes"),
        (no_kernel, "python3"),
        (graded_prose, "no code"),
        (bare_code, "without grading metadata"),
        (outputs, "has outputs"),
    ],
)
def test_each_fault_of_a_source_is_found(
    course: Any, spoil: Callable[[Any, Any], None], says: str
) -> None:
    nb = course.source
    spoil(course, nb)
    problems = validate_source(nb)
    assert problems
    assert any(says in problem for problem in problems), problems


def test_a_test_begins_with_its_name(course: Any) -> None:
    nb = course.source
    cell = course.cell(nb, "test_names")
    cell.source = cell.source.removeprefix("# test_names\n")
    (problem,) = validate_source(nb)
    assert problem.startswith("cell test_names: a test does not begin")


def test_visible_and_hidden_tests_are_both_asked_for(course: Any) -> None:
    nb = course.source
    cell = course.cell(nb, "test_names")
    visible, hidden = cell.source.split("### BEGIN HIDDEN TESTS\n")
    cell.source = visible.rstrip()
    assert validate_source(nb) == [
        "Exercise 2: names: there is no hidden test"
    ]
    cell.source = "# test_names\n### BEGIN HIDDEN TESTS\n" + hidden
    assert validate_source(nb) == [
        "Exercise 2: names: there is no visible test"
    ]
