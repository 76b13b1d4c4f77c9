"""What a well-formed exercise source has, as a list of what is missing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import nbformat
from nbformat import NotebookNode

from labkit.errors import LabError
from labkit.exercises.source import (
    HIDDEN_TESTS,
    SOLUTION,
    Exercise,
    exercises_of,
    marks,
    replace_regions,
    role,
    student_copy,
)

_METADATA: dict[str, type | tuple[type, ...]] = {
    "schema_version": int,
    "grade": bool,
    "solution": bool,
    "locked": bool,
    "task": bool,
    "grade_id": str,
    "cell_type": str,
}
_LABELS = ("**Hand in.**", "**Checked.**", "**Time.**")


def validate_source(nb: NotebookNode) -> list[str]:
    """Every fault of an exercise source, one sentence each; empty if none.

    Checked: the notebook format, nbgrader's metadata, unique ids, markers
    where they belong, no outputs; in each exercise a statement with what
    to hand in, what is checked and the time, an answer, and visible and
    hidden tests whose assertions each say what is wrong.
    """
    problems = list(_notebook_problems(nb))
    for cell in nb.cells:
        name = marks(cell).get("grade_id") or cell.get("id")
        problems.extend(f"cell {name}: {p}" for p in _cell_problems(cell))
    for exercise in exercises_of(nb):
        problems.extend(
            f"{exercise.title}: {p}" for p in _exercise_problems(exercise)
        )
    if not problems:
        try:
            student_copy(nb)
        except LabError as error:
            problems.append(str(error))
    return problems


def _notebook_problems(nb: NotebookNode) -> Iterator[str]:
    try:
        nbformat.validate(nb)
    except nbformat.ValidationError as error:
        yield f"not a valid notebook: {error.message}"
    if nb.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    if not re.fullmatch(
        r"[0-9]{2}", str(nb.metadata.get("labkit", {}).get("lesson", ""))
    ):
        yield "metadata.labkit.lesson does not name the lesson"
    if not exercises_of(nb):
        yield "there is no exercise (a level-2 heading starts one)"
    ids = Counter(marks(c)["grade_id"] for c in nb.cells if marks(c))
    yield from (
        f"grade_id {name!r} is used {count} times"
        for name, count in ids.items()
        if count > 1
    )


def _cell_problems(cell: NotebookNode) -> Iterator[str]:
    if cell.cell_type == "code" and cell.outputs:
        yield "has outputs; clear them"
    if cell.cell_type == "code" and not marks(cell):
        yield "code without grading metadata; lock it if it is given"
    if marks(cell):
        yield from _metadata_problems(cell)
    yield from _marker_problems(cell)
    if role(cell) in ("given", "test") and cell.cell_type == "code":
        yield from _code_problems(cell.source)
    if role(cell) == "test" and not cell.source.startswith(
        f"# {marks(cell).get('grade_id')}\n"
    ):
        yield "a test does not begin with its name, as # test_name"


def _metadata_problems(cell: NotebookNode) -> Iterator[str]:
    found = marks(cell)
    for key, kind in _METADATA.items():
        if not isinstance(found.get(key), kind):
            yield f"metadata {key} is missing or of the wrong type"
    if found.get("schema_version") != 3:
        yield "schema_version is not 3"
    if role(cell) == "test" and cell.cell_type != "code":
        yield "a test that is no code"
    if found.get("task"):
        yield "task cells are not supported"
    if found.get("cell_type") != cell.cell_type:
        yield "metadata cell_type differs from the cell's own"
    if not re.fullmatch(r"[a-zA-Z0-9_\-]+", str(found.get("grade_id"))):
        yield "grade_id may hold letters, digits, _ and - only"
    if found.get("grade"):
        points = found.get("points")
        if isinstance(points, bool) or not isinstance(points, int | float):
            yield "points are missing"
        elif points <= 0:
            yield "points are not positive"
    if found.get("locked") != (role(cell) in ("given", "test")):
        yield "exactly the given and the test cells are locked"


def _marker_problems(cell: NotebookNode) -> Iterator[str]:
    kind = role(cell)
    for markers, home in (
        (SOLUTION, ("answer", "manual")),
        (HIDDEN_TESTS, ("test",)),
    ):
        try:
            count = replace_regions(cell.source, markers)[1]
        except ValueError as error:
            yield str(error)
            continue
        if count and kind not in home:
            yield f"{markers[0]} does not belong here"
        if kind == "answer" and markers is SOLUTION and not count:
            yield "an answer cell without a solution"


def _code_problems(source: str) -> Iterator[str]:
    """Plain Python, and every assertion says what a learner will read."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        yield f"not valid Python: {error.msg}, line {error.lineno}"
        return
    asserts = [n for n in ast.walk(tree) if isinstance(n, ast.Assert)]
    yield from (
        f"the assertion in line {node.lineno} has no message"
        for node in asserts
        if node.msg is None
    )


def _exercise_problems(exercise: Exercise) -> Iterator[str]:
    statement = exercise.statement
    yield from (
        f"the statement lacks {label}"
        for label in _LABELS
        if label not in statement
    )
    if exercise.minutes is None:
        yield 'the statement lacks "**Time.** About N minutes"'
    roles = [role(cell) for cell in exercise.cells]
    if "answer" not in roles:
        yield "there is no answer cell"
    tests = [c.source for c in exercise.cells if role(c) == "test"]
    hidden = [t for t in tests if HIDDEN_TESTS[0] in t]
    visible = [t for t in tests if _has_visible_assert(t)]
    if not hidden:
        yield "there is no hidden test"
    if not visible:
        yield "there is no visible test"


def _has_visible_assert(source: str) -> bool:
    try:
        text = replace_regions(source, HIDDEN_TESTS)[0]
        tree = ast.parse(text)
    except (ValueError, SyntaxError):
        return False
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))
