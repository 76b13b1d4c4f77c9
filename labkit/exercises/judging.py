"""One submission run and judged, test by test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nbformat import NotebookNode

from labkit.exercises.processes import Outcome, RunLimits, Step, run_steps
from labkit.exercises.reports import Report, Result, Status
from labkit.exercises.source import Exercise, exercises_of, marks, role
from labkit.exercises.submission import SubmittedCell, merge, remarks

_UNSOLVED = "NotImplementedError"


def judge(
    source: NotebookNode,
    cells: Sequence[SubmittedCell],
    student: str,
    limits: RunLimits,
    files: Path | None = None,
) -> Report:
    """Run a submission's cells in the source and judge every test.

    A test passes when it ran to its end; every test gives its points or
    none, and an exercise with several tests gives part of its points.
    """
    steps = merge(source, cells)
    ran = list(zip(steps, run_steps(steps, limits, files), strict=True))
    ends = {step.name: end for step, end in ran if step.kind == "test"}
    unsolved = {
        step.name
        for step, end in ran
        if step.kind == "own" and end.error == _UNSOLVED
    }
    results = []
    for exercise, cell in _graded(source):
        if role(cell) == "manual":
            results.append(_result(exercise, cell, "manual", None))
            continue
        end = ends[marks(cell)["grade_id"]]
        status = _status(end, exercise, unsolved)
        points = marks(cell)["points"] if status == "passed" else 0
        symptom = _symptom(end, limits) if status == "failed" else ""
        results.append(_result(exercise, cell, status, points, symptom))
    notes = (*remarks(source, cells), *_troubles(ran, limits))
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


def _status(end: Outcome, exercise: Exercise, unsolved: set[str]) -> Status:
    """Passed, failed, or not done: an answer cell still holds its stub."""
    if end.end == "ok":
        return "passed"
    if end.error == _UNSOLVED:
        return "not done"
    answers = {
        marks(cell)["grade_id"]
        for cell in exercise.cells
        if role(cell) == "answer"
    }
    missing = end.error == "NameError" and bool(answers & unsolved)
    return "not done" if missing else "failed"


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
    }[end.end]


def _error(end: Outcome) -> str:
    if end.error == "AssertionError":
        text = end.message or "an assertion failed"
    else:
        text = f"{end.error}: {end.message}" if end.message else end.error
    if end.cell is not None:
        text += f" (line {end.line} of your cell {end.cell})"
    return text


def _troubles(
    ran: Sequence[tuple[Step, Outcome]], limits: RunLimits
) -> Iterator[str]:
    """What went wrong in cells that are no tests."""
    for step, end in ran:
        if step.kind == "test" or end.end == "ok" or end.error == _UNSOLVED:
            continue
        yield f"Cell {step.name}: {_symptom(end, limits)}."
