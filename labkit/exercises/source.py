"""Exercise sources: statement, solution, visible and hidden tests.

One notebook a lesson, `exercises/NN_name.ipynb`. The markers and the cell
metadata are nbgrader's (schema version 3), so the same file can be used
there. A source consists of exercises; each starts with a level-2 heading
and holds, in this order, cells of these roles:

- prose: Markdown without grading metadata, the statement;
- given: locked code that the learner's cells may use;
- answer: the learner writes here; the source has the solution;
- test: locked and worth points; part of it may be hidden;
- manual: an answer that a person reads and grades.

How to write a test that a learner cannot talk round: put the verdict's own
data and helpers into the test cell, turn results into plain numbers with
`int`, `float`, `str` or `list` before comparing them, and compare with
operators and builtins, not with functions of a module.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import nbformat
from nbformat import NotebookNode

from labkit.errors import LabError

Role = Literal["prose", "given", "answer", "test", "manual", "own"]
Markers = tuple[str, str]

SOLUTION: Markers = ("### BEGIN SOLUTION", "### END SOLUTION")
HIDDEN_TESTS: Markers = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
CODE_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
TEXT_STUB = "YOUR ANSWER HERE"


@dataclass(frozen=True)
class Exercise:
    """The cells from one level-2 heading to the next."""

    title: str
    cells: tuple[NotebookNode, ...]

    @property
    def statement(self) -> str:
        """The prose of the exercise, heading included."""
        return "\n\n".join(
            cell.source for cell in self.cells if role(cell) == "prose"
        )

    @property
    def points(self) -> float:
        """What the exercise is worth, manual grading included."""
        return sum(marks(cell).get("points", 0) for cell in self.cells)

    @property
    def minutes(self) -> int | None:
        """The time that the statement names, or None where it names none."""
        found = re.search(
            r"\*\*Time\.\*\*\s+About\s+(\d+)\s+min", self.statement
        )
        return int(found.group(1)) if found else None


def marks(cell: NotebookNode) -> dict:
    """The grading metadata of a cell; empty where it has none."""
    return cell.metadata.get("nbgrader", {})


def role(cell: NotebookNode) -> Role:
    """What a cell of a source is for; see the module's text."""
    found = marks(cell)
    if found.get("solution"):
        return "manual" if found.get("grade") else "answer"
    if found.get("grade"):
        return "test"
    if found.get("locked"):
        return "given"
    return "own" if cell.cell_type == "code" else "prose"


def exercises_of(nb: NotebookNode) -> list[Exercise]:
    """The exercises of a source in order; cells before the first are not."""
    groups: list[tuple[str, list[NotebookNode]]] = []
    for cell in nb.cells:
        heading = re.match(r"## +(.+)", cell.source)
        if cell.cell_type == "markdown" and heading:
            groups.append((heading.group(1).strip(), []))
        if groups:
            groups[-1][1].append(cell)
    return [Exercise(title, tuple(cells)) for title, cells in groups]


def lesson_number(lesson: str | int) -> str:
    """A lesson's number as two digits: "2", 2 and "02" give "02"."""
    text = str(lesson).strip()
    if not re.fullmatch(r"[0-9]{1,2}", text):
        raise LabError(
            f"There is no lesson {text!r}: give its number, such as 01."
        )
    return text.zfill(2)


def source_path(lesson: str | int, root: Path) -> Path:
    """Where the exercise source of a lesson lies under the course's root."""
    number = lesson_number(lesson)
    folder = root / "exercises"
    found = sorted(folder.glob(f"{number}_*.ipynb"))
    if not found:
        others = sorted(p.name[:2] for p in folder.glob("[0-9]*_*.ipynb"))
        have = ", ".join(others) or "none"
        raise LabError(
            f"There are no exercises for lesson {number} in {folder}; "
            f"lessons that have some: {have}."
        )
    if len(found) > 1:
        raise LabError(
            f"Lesson {number} has more than one exercise source in "
            f"{folder}; keep one."
        )
    return found[0]


def needed_files(lesson: str | int, root: Path) -> Path | None:
    """The folder of files that a lesson's exercises read, or None."""
    folder = root / "exercises" / "files" / lesson_number(lesson)
    return folder if folder.is_dir() else None


def load_source(lesson: str | int, root: Path) -> NotebookNode:
    """The exercise source of a lesson.

    Raises LabError where there is none or where it cannot be read.
    """
    path = source_path(lesson, root)
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise LabError(
            f"The exercise source {path.name} cannot be read ({error}); "
            "restore it from the repository."
        ) from error


def replace_regions(
    text: str, markers: Markers, stub: tuple[str, ...] = ()
) -> tuple[str, int]:
    """Replace each region between two marker lines by the stub's lines.

    The stub takes the indentation of the opening marker. Returns the new
    text and the number of regions. Raises ValueError for markers that are
    nested, unbalanced or out of order.
    """
    begin, end = markers
    kept: list[str] = []
    inside, count = False, 0
    for line in text.split("\n"):
        if begin in line:
            if inside:
                raise ValueError(f"{begin} inside another one")
            inside, count = True, count + 1
            indent = line[: len(line) - len(line.lstrip())]
            kept.extend(indent + new for new in stub)
        elif end in line:
            if not inside:
                raise ValueError(f"{end} without a beginning")
            inside = False
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"{begin} without an end")
    return "\n".join(kept), count


def _student_text(cell: NotebookNode) -> str:
    """The source of one cell as the learner gets it."""
    kind = role(cell)
    if kind == "test":
        text, count = replace_regions(cell.source, HIDDEN_TESTS)
        return text.rstrip("\n") if count else text
    if kind not in ("answer", "manual"):
        return cell.source
    code = cell.cell_type == "code"
    stub = CODE_STUB if code else (TEXT_STUB,)
    text, count = replace_regions(cell.source, SOLUTION, stub)
    return text if count else "\n".join(stub)


def is_hidden(cell: NotebookNode, line: int) -> bool:
    """Whether a line of a test (from 1) is one that the learner lacks."""
    begin, end = HIDDEN_TESTS
    inside = False
    for text in cell.source.split("\n")[:line]:
        inside = (inside or begin in text) and end not in text
    return inside


def student_copy(nb: NotebookNode) -> NotebookNode:
    """The learner's version of a source; the source is left as it is.

    Solutions become a stub that raises NotImplementedError, hidden tests
    and outputs are removed, locked cells can be neither edited nor
    deleted, answer cells cannot be deleted. Raises LabError if a marker
    would be left over.
    """
    nb = copy.deepcopy(nb)
    for cell in nb.cells:
        kind = role(cell)
        try:
            cell.source = _student_text(cell)
        except ValueError as error:
            raise LabError(
                f"Cell {cell.get('id')} of the exercise source is broken: "
                f"{error}; put its markers in order."
            ) from error
        if kind in ("answer", "manual", "given", "test"):
            cell.metadata["deletable"] = False
        if kind in ("given", "test"):
            cell.metadata["editable"] = False
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if left_over_markers(cell.source):
            raise LabError(
                f"Cell {cell.get('id')} of the exercise source has a marker "
                "outside an answer or test cell; remove it."
            )
    return nb


def left_over_markers(text: str) -> list[str]:
    """Every marker that occurs in a text."""
    return [m for m in (*SOLUTION, *HIDDEN_TESTS) if m in text]
