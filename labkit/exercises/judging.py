"""One submission run and judged, test by test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nbformat import NotebookNode

from labkit.exercises.processes import Outcome, RunLimits, Step, run_steps
from labkit.exercises.reports import Report, Result, Status
from labkit.exercises.source import (
    Exercise,
    exercises_of,
    is_hidden,
    marks,
    role,
    student_copy,
)
from labkit.exercises.submission import SubmittedCell, merge, remarks

_UNSOLVED = "NotImplementedError"


def judge(  # noqa: PLR0913 - a submission, how to run it, whom to tell
    source: NotebookNode,
    cells: Sequence[SubmittedCell],
    student: str,
    limits: RunLimits,
    files: Path | None = None,
    *,
    on_stop: Callable[[str], None] | None = None,
) -> Report:
    """Run a submission's cells in the source and judge every test.

    A test passes when it ran to its end; every test gives its points or
    none, and an exercise with several tests gives part of its points.
    `on_stop` is told in words of each cell that had to be stopped, when it
    is.
    """

    def told(step: Step, end: Outcome) -> None:
        if on_stop:
            on_stop(f"{step.name}: {_symptom(end, limits)}")

    steps = merge(source, cells)
    outcomes = run_steps(steps, limits, files, told)
    ran = list(zip(steps, outcomes, strict=True))
    ends = {step.name: end for step, end in ran if step.kind == "test"}
    own = [(step, end) for step, end in ran if step.kind == "own"]
    results = []
    for exercise, cell in _graded(source):
        if role(cell) == "manual":
            results.append(_result(exercise, cell, "manual", None))
            continue
        end = ends[marks(cell)["grade_id"]]
        status = _status(end, exercise, own)
        points = marks(cell)["points"] if status == "passed" else 0
        symptom = ""
        if status == "failed":
            symptom = _seen(end, exercise, cell, own, limits)
        elif status == "not done":
            symptom = _half_done(end, exercise, source, own)
        results.append(_result(exercise, cell, status, points, symptom))
    notes = (
        *remarks(source, cells),
        *_troubles(ran, limits),
        *_left_over(source, results, own),
    )
    return Report(_lesson(source), student, tuple(results), notes)


def refuse(source: NotebookNode, student: str, reason: str) -> Report:
    """No points, for a submission that cannot be run."""
    results = tuple(
        _result(exercise, cell, "manual", None)
        if role(cell) == "manual"
        else _result(exercise, cell, "not graded", 0)
        for exercise, cell in _graded(source)
    )
    return Report(_lesson(source), student, results, reason=reason)


def _lesson(source: NotebookNode) -> str:
    return str(source.metadata["labkit"]["lesson"])


def _graded(
    source: NotebookNode,
) -> Iterator[tuple[Exercise, NotebookNode]]:
    for exercise in exercises_of(source):
        for cell in exercise.cells:
            if role(cell) in ("test", "manual"):
                yield exercise, cell


def _result(
    exercise: Exercise,
    cell: NotebookNode,
    status: Status,
    points: float | None,
    symptom: str = "",
) -> Result:
    found = marks(cell)
    return Result(
        found["grade_id"],
        exercise.title,
        status,
        points,
        found["points"],
        symptom,
    )


def _status(
    end: Outcome, exercise: Exercise, own: Sequence[tuple[Step, Outcome]]
) -> Status:
    """Passed, failed, or not done: an answer cell still holds its stub."""
    if end.end == "ok":
        return "passed"
    if end.error == _UNSOLVED:
        return "not done"
    unsolved = {step.name for step, end in own if end.error == _UNSOLVED}
    if end.error != "NameError":
        return "failed"
    asked = _asked(end, exercise) or _answers(exercise)
    return "not done" if asked & unsolved else "failed"


def _answers(exercise: Exercise) -> set[str]:
    """Ids of the cells that a learner writes in."""
    return {
        marks(cell)["grade_id"]
        for cell in exercise.cells
        if role(cell) == "answer"
    }


def _half_done(
    end: Outcome,
    exercise: Exercise,
    source: NotebookNode,
    own: Sequence[tuple[Step, Outcome]],
) -> str:
    """Where the stub is still reached, in a cell that was written in."""
    stubs = {
        marks(cell).get("grade_id"): cell.source.strip()
        for cell in student_copy(source).cells
    }
    if end.error == _UNSOLVED:
        reached = {end.cell: end.line}
    else:
        asked = _asked(end, exercise) or _answers(exercise)
        reached = {
            step.name: ended.line
            for step, ended in own
            if step.name in asked and ended.error == _UNSOLVED
        }
    for step, _ in own:
        if step.name in reached and step.source.strip() != stubs.get(
            step.name
        ):
            return (
                f"your cell {_called(step.name)} still raises {_UNSOLVED}"
                f" (line {reached[step.name]}): take that line out"
            )
    return ""


def _asked(end: Outcome, exercise: Exercise) -> set[str]:
    """Ids of the answer cells that should define the name that is missing."""
    missing = re.match(r"name '(\w+)' is not defined", end.message)
    return {
        marks(cell)["grade_id"]
        for cell in exercise.cells
        if role(cell) == "answer"
        and missing
        and missing[1] in _defined(cell.source)
    }


def _seen(
    end: Outcome,
    exercise: Exercise,
    test: NotebookNode,
    own: Sequence[tuple[Step, Outcome]],
    limits: RunLimits,
) -> str:
    """The symptom of a failed test, and what helps to find its cause."""
    text = _symptom(end, limits)
    if end.error == "NameError" and end.cell is None:
        asked = _asked(end, exercise)
        for step, ended in own:
            if step.name not in asked:
                continue
            if ended.end != "ok":
                return f"not run: your cell {step.name} did not run to its end"
            if defined := ", ".join(sorted(_defined(step.source))):
                text += f"; your cell {step.name} defines {defined}"
    if end.test_line and is_hidden(test, end.test_line):
        text += "; this check is one of those that are not on the page"
    return text


def _defined(source: str) -> set[str]:
    """Functions, classes and variables that a cell makes for others.

    None for a cell that is no plain Python.
    """
    made: set[str] = set()
    with suppress(SyntaxError, ValueError):
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                made.add(node.name)
            elif isinstance(node, ast.Assign):
                made |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return made


def _symptom(end: Outcome, limits: RunLimits) -> str:
    """What was seen, in a sentence; never a line of the test."""
    if end.end == "error":
        return _error(end)
    return {
        "time": f"it did not end within {limits.cell_s:g} s",
        "output": f"it printed more than {limits.output_bytes:,} bytes",
        "memory": "it needed more memory than "
        f"{limits.memory_bytes / 2**20:,.0f} MiB",
        "processes": f"it started more than {limits.processes} processes",
        "files": "it wrote more files than "
        f"{limits.files_bytes / 2**20:,.0f} MiB",
        "died": "the process ended while it ran",
        "not run": "the time for this notebook was used up before it",
        "given up": "not run: another test of this exercise did not end",
    }[end.end]


def _error(end: Outcome) -> str:
    if end.error == "AssertionError":
        text = end.message or "an assertion failed"
    else:
        text = f"{end.error}: {end.message}" if end.message else end.error
    if end.cell is not None:
        text += f" (line {end.line} of your cell {_called(end.cell)})"
    return text


def _left_over(
    source: NotebookNode,
    results: Sequence[Result],
    own: Sequence[tuple[Step, Outcome]],
) -> Iterator[str]:
    """Answers that pass tests, and kept the line that says they do not."""
    raised = {step.name for step, end in own if end.error == _UNSOLVED}
    passed = {r.exercise for r in results if r.status == "passed"}
    for exercise in exercises_of(source):
        if exercise.title in passed:
            for name in sorted(_answers(exercise) & raised):
                yield (
                    f"Cell {name} passes tests, but still raises {_UNSOLVED}"
                    " when it is run: take that line out."
                )


def _troubles(
    ran: Sequence[tuple[Step, Outcome]], limits: RunLimits
) -> Iterator[str]:
    """What went wrong in cells that are no tests."""
    for step, end in ran:
        if step.kind == "test" or end.end == "ok" or end.error == _UNSOLVED:
            continue
        yield f"Cell {_called(step.name)}: {_symptom(end, limits)}."


def _called(name: str) -> str:
    """A cell after the word cell: its id, or its number in the notebook."""
    return name.removeprefix("cell ")
