"""The course's own exercises, with the answers planted for them.

`exercises/planted/NN/ANSWER/` holds answers that replace the cell ANSWER:
`right_*.py` must pass every test, `wrong_*.py` all but those that its first
line names ("all": none). One answer of each cell goes into a notebook, so
that a grading tries one of each; the answers do not depend on each other.
"""

from __future__ import annotations

import functools
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from labkit.exercises import RunLimits, check, validate_source
from labkit.exercises.judging import judge
from labkit.exercises.reports import Report
from labkit.exercises.source import (
    exercises_of,
    load_source,
    marks,
    role,
    source_path,
    student_copy,
)
from labkit.exercises.submission import SubmittedCell

ROOT = Path(__file__).parents[2]
LESSONS = [p.name[:2] for p in sorted(ROOT.glob("exercises/[0-9]*_*.ipynb"))]
PLANTED = sorted(ROOT.glob("exercises/planted/*/*/*.py"))
LIMITS = RunLimits(cell_s=60, total_s=300)


@functools.cache
def source_of(lesson: str) -> Any:
    return load_source(lesson, ROOT)


def answers_of(lesson: str) -> list[str]:
    """The ids of a lesson's answer cells."""
    cells = source_of(lesson).cells
    return [marks(c)["grade_id"] for c in cells if role(c) == "answer"]


def graded_after(lesson: str, answer: str) -> set[str]:
    """The ids of the tests that follow an answer, up to the next one."""
    found: dict[str, set[str]] = {}
    current = ""
    for cell in source_of(lesson).cells:
        name = marks(cell).get("grade_id", "")
        if role(cell) == "answer":
            current = name
        elif role(cell) == "test":
            found.setdefault(current, set()).add(name)
    return found[answer]


@functools.cache
def rounds(lesson: str) -> tuple[dict[str, Path], ...]:
    """The planted answers dealt out: one for each cell in a round."""
    by_cell = {
        answer: [p for p in PLANTED if p.parts[-3:-1] == (lesson, answer)]
        for answer in answers_of(lesson)
    }
    return tuple(
        {a: p for a, p in zip(by_cell, turn, strict=True) if p is not None}
        for turn in zip_longest(*by_cell.values())
    )


@functools.cache
def report_of(lesson: str, turn: int) -> Report:
    """The grading of one round; cells without an answer stay unsolved."""
    chosen = rounds(lesson)[turn]
    cells = []
    for cell in student_copy(source_of(lesson)).cells:
        name = marks(cell).get("grade_id")
        text = (
            chosen[name].read_text(encoding="utf-8")
            if name in chosen
            else cell.source
        )
        code = cell.cell_type == "code"
        cells.append(SubmittedCell(code, text, name, False))
    return judge(source_of(lesson), cells, f"round {turn}", LIMITS)


def failing(path: Path) -> set[str]:
    """The tests that a planted answer says it fails."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    found = re.fullmatch(r"# Fails: (\w+(?:, \w+)*)", first)
    names = set(found.group(1).split(", ")) if found else set()
    return graded_after(*path.parts[-3:-1]) if names == {"all"} else names


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_source_is_well_formed(lesson: str) -> None:
    source = source_of(lesson)
    assert validate_source(source) == []
    assert source.metadata["labkit"]["lesson"] == lesson
    assert 2 <= len(exercises_of(source)) <= 4
    lines = [
        line
        for cell in source.cells
        for line in cell.source.split("\n")
        if len(line) > 79
    ]
    assert lines == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_solution_passes_everything(lesson: str) -> None:
    report = check(lesson, source_path(lesson, ROOT), ROOT, LIMITS)
    assert report.passed, report.text()
    assert report.notes == ()


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_unsolved_copy_passes_nothing(lesson: str) -> None:
    cells = [
        SubmittedCell(
            c.cell_type == "code", c.source, marks(c).get("grade_id"), False
        )
        for c in student_copy(source_of(lesson)).cells
    ]
    report = judge(source_of(lesson), cells, "unsolved", LIMITS)
    statuses = {result.status for result in report.results}
    assert statuses == {"not done"}, report.text()
    assert report.points == 0


@pytest.mark.parametrize(
    "path", PLANTED, ids=lambda path: "-".join(path.parts[-3:])
)
def test_a_planted_answer_gets_what_it_deserves(path: Path) -> None:
    lesson, answer, name = path.parts[-3:]
    turn = next(
        number
        for number, chosen in enumerate(rounds(lesson))
        if chosen.get(answer) == path
    )
    report = report_of(lesson, turn)
    mine = graded_after(lesson, answer)
    failed = {
        result.grade_id
        for result in report.results
        if result.grade_id in mine and result.status != "passed"
    }
    assert failed == failing(path), report.text()
    assert bool(failed) == name.startswith("wrong_")


@pytest.mark.parametrize("lesson", LESSONS)
def test_there_are_three_wrong_answers_and_a_right_one(lesson: str) -> None:
    counts = {
        answer: tuple(
            len([p for p in PLANTED if p.match(f"{lesson}/{answer}/{kind}_*")])
            for kind in ("wrong", "right")
        )
        for answer in answers_of(lesson)
    }
    assert all(w >= 3 and r >= 1 for w, r in counts.values()), counts
    folders = {p.parent.name for p in PLANTED if p.parts[-3] == lesson}
    assert folders == set(counts)


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_test_is_failed_by_a_wrong_answer(lesson: str) -> None:
    named = {
        name
        for path in PLANTED
        if path.parts[-3] == lesson
        for name in failing(path)
    }
    tests = {
        marks(cell)["grade_id"]
        for cell in source_of(lesson).cells
        if role(cell) == "test"
    }
    assert named == tests
