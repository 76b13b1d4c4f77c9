"""Check one notebook, grade many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nbformat import NotebookNode

from labkit.errors import LabError
from labkit.exercises.handout import copy_name, writing_to
from labkit.exercises.judging import judge, refuse
from labkit.exercises.processes import RunLimits
from labkit.exercises.reports import Report, write_reports
from labkit.exercises.source import (
    lesson_number,
    load_source,
    needed_files,
    source_path,
)
from labkit.exercises.submission import read_submission, require_lesson

LIMITS = RunLimits()


def check(
    lesson: str | int,
    notebook: Path,
    root: Path,
    limits: RunLimits = LIMITS,
    on_stop: Callable[[str], None] | None = None,
) -> Report:
    """What passes and what does not in a learner's notebook, by symptom.

    Nothing is written, and the notebook is not run in place. `on_stop` is
    told of each cell that had to be stopped. Raises LabError for a file
    that is not a notebook of this lesson's exercises.
    """
    source = load_source(lesson, root)
    limits = replace(limits, hidden=(root / "exercises",))
    cells = read_submission(notebook)
    require_lesson(source, cells, notebook)
    files = needed_files(lesson, root)
    return judge(source, cells, notebook.stem, limits, files, on_stop=on_stop)


def grade(  # noqa: PLR0913 - two folders and two choices, given by name
    lesson: str | int,
    folder: Path,
    out: Path,
    root: Path,
    *,
    limits: RunLimits = LIMITS,
    on_start: Callable[[], None] | None = None,
    on_report: Callable[[Report], None] | None = None,
) -> list[Report]:
    """Grade every submission in a folder; write CSV, JSON and feedback.

    A submission is a notebook in the folder, named after the student, or a
    folder with the student's name that holds one (as in nbgrader's
    `submitted`). Whatever cannot be graded gets no points and the reason,
    and the run goes on. `on_start` is called once it is clear that there is
    something to grade, `on_report` after each submission. A run that is
    interrupted writes what it has graded so far. Raises LabError where there
    is nothing to grade and, before anything runs, where `out` cannot be
    written.
    """
    source = load_source(lesson, root)
    names = (copy_name(lesson, root), source_path(lesson, root).name)
    found = submissions(folder, names, out)
    if not found:
        raise LabError(
            f"There is nothing to grade in {folder}; put the notebooks that "
            "were handed in there, each named after its student."
        )
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
    if on_start:
        on_start()
    files = needed_files(lesson, root)
    limits = replace(limits, hidden=(root / "exercises", folder, out))
    reports: list[Report] = []
    try:
        for student, path in found:
            report = _grade_one(source, student, path, limits, files)
            reports.append(report)
            if on_report:
                on_report(report)
    finally:
        if reports:  # none must not take the place of earlier grades
            with writing_to(out):
                write_reports(reports, lesson_number(lesson), out)
    return reports


def submissions(
    folder: Path, expected: Sequence[str], out: Path | None = None
) -> list[tuple[str, Path]]:
    """Student's name and file of each submission, in order of name.

    Hidden files, names that begin with two underscores, and `out` are left
    out. In a student's folder the notebooks with an expected name count,
    and where there are none every notebook does.
    """
    if not folder.is_dir():
        raise LabError(f"There is no folder {folder}; check the name.")
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__")) or _same(entry, out):
            continue
        for name, path in _of_entry(entry, expected):
            free = name if name not in found else entry.name
            found[free] = path
    return list(found.items())


def _same(entry: Path, out: Path | None) -> bool:
    return out is not None and entry.resolve() == out.resolve()


def _of_entry(entry: Path, expected: Sequence[str]) -> list[tuple[str, Path]]:
    if not entry.is_dir():
        return [(entry.stem, entry)]
    notebooks = sorted(
        path
        for path in entry.rglob("*.ipynb")
        if not any(
            part.startswith((".", "__"))
            for part in path.relative_to(entry).parts
        )
    )
    wanted = [path for path in notebooks if path.name in expected]
    chosen = wanted or notebooks
    if len(chosen) <= 1:
        return [(entry.name, chosen[0] if chosen else entry)]
    return [
        (path.relative_to(entry.parent).with_suffix("").as_posix(), path)
        for path in chosen
    ]


def _grade_one(
    source: NotebookNode,
    student: str,
    path: Path,
    limits: RunLimits,
    files: Path | None,
) -> Report:
    try:
        if path.is_dir():
            raise LabError(f"There is no notebook in the folder {path.name}.")
        if path.suffix != ".ipynb":
            raise LabError(
                f"{path.name} is not a notebook; hand in the .ipynb file."
            )
        cells = read_submission(path)
        require_lesson(source, cells, path)
        return judge(source, cells, student, limits, files)
    except LabError as error:
        return refuse(source, student, str(error))
    except Exception as error:  # one submission must not cost the class
        # The text of an OSError names a file of the instructor's.
        what = getattr(error, "strerror", None) or error
        return refuse(
            source,
            student,
            f"{path.name} could not be graded "
            f"({type(error).__name__}: {what}); grade it again.",
        )
