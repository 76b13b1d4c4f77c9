"""What a learner handed in, and how it is laid into the source.

Only the learner's own code cells count. Every given and test cell comes
from the source, so one that was edited, deleted, renamed or copied changes
nothing. The learner's cells are the answers, each at the place of its
answer cell in the source, and any others (helpers), in the learner's order,
after the cell of the source that they followed. A helper written above an
answer, or between an answer and its test, is there when the test runs.
"""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from labkit.errors import LabError
from labkit.exercises.processes import Step
from labkit.exercises.source import (
    Role,
    exercises_of,
    marks,
    role,
    student_copy,
)

_LARGEST_BYTES = 20_000_000


@dataclass(frozen=True)
class SubmittedCell:
    """One cell as handed in; `locked` is what its own metadata claim."""

    code: bool
    source: str
    grade_id: str | None
    locked: bool


def read_submission(path: Path) -> list[SubmittedCell]:
    """The cells of a notebook that was handed in.

    Raises LabError with the reason for a file that is no notebook. Damaged
    cells inside a notebook are left out.
    """
    document = _read_json(path)
    if "nbformat" not in document or not isinstance(
        document.get("cells"), list
    ):
        raise LabError(
            f"{path.name} is not a notebook in the current format: open it "
            "in JupyterLab and save it again."
        )
    cells = [_submitted(cell) for cell in document["cells"]]
    found = [cell for cell in cells if cell is not None]
    if not any(cell.source.strip() for cell in found):
        raise LabError(
            f"{path.name} is empty: write your answers into your copy and "
            "save it."
        )
    return found


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a named pipe never ends
            raise LabError(
                f"{path.name} is not a regular file: take the .ipynb file as "
                "JupyterLab saved it."
            )
        if found.st_size > _LARGEST_BYTES:
            raise LabError(
                f"{path.name} is larger than {_LARGEST_BYTES // 10**6} MB; "
                "clear its outputs and save it again."
            )
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise LabError(
            f"There is no file {path.name}; check the name."
        ) from None
    except OSError as error:
        raise LabError(
            f"{path.name} cannot be read ({error.strerror}); "
            "check the file and its permissions."
        ) from error
    except (ValueError, RecursionError):
        raise LabError(
            f"{path.name} is not a notebook (it does not hold JSON): take "
            "the .ipynb file as JupyterLab saved it."
        ) from None
    if not isinstance(document, dict):
        raise LabError(
            f"{path.name} is not a notebook: take the .ipynb file as "
            "JupyterLab saved it."
        )
    return document


def _submitted(cell: object) -> SubmittedCell | None:
    if not isinstance(cell, dict):
        return None
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(s, str) for s in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    found = found if isinstance(found, dict) else {}
    name = found.get("grade_id")
    return SubmittedCell(
        code=cell.get("cell_type") == "code",
        source=source,
        grade_id=name if isinstance(name, str) else None,
        locked=bool(found.get("grade") or found.get("locked"))
        and not found.get("solution"),
    )


def require_lesson(
    source: NotebookNode, cells: Sequence[SubmittedCell], path: Path
) -> None:
    """LabError unless the notebook has a cell of this lesson's exercises."""
    known = {marks(cell).get("grade_id") for cell in source.cells} - {None}
    if not any(cell.grade_id in known for cell in cells):
        if _has_lost_ids(source, cells):
            raise LabError(
                f"{path.name} is of this lesson, but its cells have lost "
                "their ids (saved by another program?): copy the answers "
                "into a fresh copy."
            )
        lesson = source.metadata["labkit"]["lesson"]
        raise LabError(
            f"{path.name} has no cell of the exercises of lesson {lesson}: "
            "take the notebook of this lesson."
        )


def _has_lost_ids(
    source: NotebookNode, cells: Sequence[SubmittedCell]
) -> bool:
    """Whether no cell has an id, but some have this lesson's text."""
    if any(cell.grade_id for cell in cells):
        return False
    texts = {
        cell.source.strip()
        for cell in student_copy(source).cells
        if role(cell) in ("given", "test")
    }
    return any(cell.source.strip() in texts for cell in cells)


def merge(source: NotebookNode, cells: Sequence[SubmittedCell]) -> list[Step]:
    """The steps to run: the source's own cells and the learner's."""
    places = _places(source)
    roles = _roles(source)
    slots = _slots(places, roles, cells)
    steps = list(slots.get(-1, ()))
    titles = {
        marks(cell).get("grade_id", ""): exercise.title
        for exercise in exercises_of(source)
        for cell in exercise.cells
    }
    for place, cell in enumerate(source.cells):
        name = marks(cell).get("grade_id", "")
        if roles.get(name) == "given" and cell.cell_type == "code":
            steps.append(Step(name, "given", cell.source))
        elif roles.get(name) == "test":
            steps.append(Step(name, "test", cell.source, titles[name]))
        steps.extend(slots.get(place, ()))
    return steps


def _places(source: NotebookNode) -> dict[str, int]:
    return {
        marks(cell)["grade_id"]: place
        for place, cell in enumerate(source.cells)
        if marks(cell)
    }


def _roles(source: NotebookNode) -> dict[str, Role]:
    return {
        marks(cell)["grade_id"]: role(cell)
        for cell in source.cells
        if marks(cell)
    }


def _is_own(cell: SubmittedCell, roles: dict[str, Role]) -> bool:
    """Whether a cell is the learner's to write."""
    known = roles.get(cell.grade_id or "")
    if not cell.code:
        return False
    return known == "answer" if known else not cell.locked


def _slots(
    places: dict[str, int],
    roles: dict[str, Role],
    cells: Sequence[SubmittedCell],
) -> dict[int, list[Step]]:
    """The learner's cells by the place in the source that they follow."""
    anchors = _anchors(list(places), cells)
    slots: dict[int, list[Step]] = {}
    place = -1
    for number, cell in enumerate(cells):
        if number in anchors:
            place = places[anchors[number]]
        if not _is_own(cell, roles):
            continue
        name = cell.grade_id or f"cell {number + 1}"
        slots.setdefault(places.get(name, place), []).append(
            Step(name, "own", cell.source)
        )
    return slots


def _anchors(
    names: list[str], cells: Sequence[SubmittedCell]
) -> dict[int, str]:
    """Cells by number that stand in the source's order, with their id.

    A cell that was moved or copied to another place tells nothing about
    where its neighbours belong.
    """
    known = set(names)
    numbers = [n for n, cell in enumerate(cells) if cell.grade_id in known]
    submitted = [cells[n].grade_id for n in numbers]
    matcher = SequenceMatcher(None, names, submitted, autojunk=False)
    return {
        numbers[block.b + i]: names[block.a + i]
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    }


def remarks(
    source: NotebookNode, cells: Sequence[SubmittedCell]
) -> Iterator[str]:
    """What was changed that should not have been, for learner and grader."""
    roles = _roles(source)
    originals = {
        marks(cell)["grade_id"]: {cell.source.rstrip(), given.source.rstrip()}
        for cell, given in zip(
            source.cells, student_copy(source).cells, strict=True
        )
        if marks(cell)
    }
    counts = Counter(cell.grade_id for cell in cells if cell.grade_id)
    for name, kind in roles.items():
        locked = kind in ("given", "test")
        if not counts[name]:
            what = "the original counts" if locked else "it was not answered"
            yield f"Cell {name} is missing; {what}."
        elif counts[name] > 1:
            yield f"Cell {name} occurs {counts[name]} times."
        if locked and any(
            cell.grade_id == name
            and cell.source.rstrip() not in originals[name]
            for cell in cells
        ):
            yield f"Cell {name} was edited; the original counts."
    for name in counts:
        if name not in roles:
            yield f"Cell {name} is none of this lesson's."
