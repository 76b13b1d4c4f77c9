"""A small exercise source, and submissions made from it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labkit.exercises.source import load_source, student_copy

Notebook = Any  # an nbformat NotebookNode

STATEMENT = """## {title}

Write it.

**Hand in.** A function.

**Checked.** What it returns.

**Time.** About 5 minutes.
"""
GIVEN = """\
FACTOR = 2


class Refused(ValueError):
    pass


def scale(number):
    return FACTOR * number
"""
DOUBLE = """\
def double(number):
    ### BEGIN SOLUTION
    if number < 0:
        raise Refused("negative")
    return scale(number)
    ### END SOLUTION
"""
TEST_DOUBLE = """\
# test_double
assert int(double(4)) == 8, "4 was not doubled"
### BEGIN HIDDEN TESTS
SECRET = [(5, 10), (0, 0), (21, 42)]
assert all(int(double(n)) == d for n, d in SECRET), "a number came out wrong"
### END HIDDEN TESTS
"""
TEST_REFUSED = """\
# test_refused
try:
    double(-1)
except Refused:
    refused = True
else:
    refused = False
assert refused, "a negative number was taken"
"""
NAMES = """\
### BEGIN SOLUTION
names = ["first", "second"]
### END SOLUTION
"""
TEST_NAMES = """\
# test_names
assert len(names) == 2, f"{len(names)} names instead of 2"
### BEGIN HIDDEN TESTS
assert list(names) == ["first", "second"], f"the names are {list(names)}"
### END HIDDEN TESTS
"""
WHY = """\
Why is it so?

### BEGIN SOLUTION
Because it is.
### END SOLUTION
"""


def marked(
    source: str, name: str, points: int = 0, *, solution: bool = False
) -> Notebook:
    """A code cell with nbgrader's metadata."""
    cell = nbformat.v4.new_code_cell(source.rstrip("\n"), id=name)
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade": points > 0,
        "solution": solution,
        "locked": not solution,
        "task": False,
        "grade_id": name,
        "cell_type": "code",
        **({"points": points} if points else {}),
    }
    return cell


def manual(source: str, name: str, points: int) -> Notebook:
    """A Markdown answer that a person grades."""
    cell = nbformat.v4.new_markdown_cell(source.rstrip("\n"), id=name)
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade": True,
        "solution": True,
        "locked": False,
        "task": False,
        "grade_id": name,
        "cell_type": "markdown",
        "points": points,
    }
    return cell


def prose(source: str, name: str) -> Notebook:
    """A Markdown cell without metadata."""
    return nbformat.v4.new_markdown_cell(source.strip(), id=name)


def toy(*, with_manual: bool = False) -> Notebook:
    """Two exercises: `double` (2 and 1 points) and `names` (3 points)."""
    cells = [
        prose("# Toy", "title"),
        prose(STATEMENT.format(title="Exercise 1: double"), "one"),
        marked(GIVEN, "given"),
        marked(DOUBLE, "double", solution=True),
        marked(TEST_DOUBLE, "test_double", 2),
        marked(TEST_REFUSED, "test_refused", 1),
        prose(STATEMENT.format(title="Exercise 2: names"), "two"),
        marked(NAMES, "names", solution=True),
        marked(TEST_NAMES, "test_names", 3),
    ]
    if with_manual:
        cells.append(manual(WHY, "why", 4))
    nb = nbformat.v4.new_notebook(cells=cells)
    nb.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    nb.metadata["labkit"] = {"lesson": "07"}
    return nb


RIGHT = {
    "double": (
        "def double(n):\n"
        "    if n < 0:\n"
        "        raise Refused\n"
        "    return n + n"
    ),
    "names": "names = ('first', 'second')",
}


@dataclass(frozen=True)
class Toy:
    """The toy course: its root, and submissions to it."""

    root: Path

    @property
    def source(self) -> Notebook:
        return load_source("07", self.root)

    def solved(self, **answers: str) -> Notebook:
        """A student copy with right answers, or those given by id."""
        nb = copy.deepcopy(student_copy(self.source))
        for cell in nb.cells:
            text = {**RIGHT, **answers}.get(cell.id)
            if text is not None:
                cell.source = text
        return nb

    def hand_in(self, path: Path, nb: Notebook) -> Path:
        """Save a notebook as a submission."""
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, path)
        return path

    @staticmethod
    def cell(nb: Notebook, name: str) -> Notebook:
        """The cell with this id."""
        return next(cell for cell in nb.cells if cell.id == name)

    @staticmethod
    def pasted(cell: Notebook) -> Notebook:
        """A cell as JupyterLab pastes it: same metadata, an id of its own."""
        twin = copy.deepcopy(cell)
        twin.id = f"{cell.id}-pasted"
        return twin

    @staticmethod
    def own_cell(source: str) -> Notebook:
        """A code cell that a learner added."""
        return nbformat.v4.new_code_cell(source)


@pytest.fixture
def make_toy(tmp_path: Path) -> Callable[..., Toy]:
    """A course with the toy source as lesson 07."""

    def make(
        *, with_manual: bool = False, files: Iterable[tuple[str, str]] = ()
    ) -> Toy:
        root = tmp_path / "course"
        (root / "exercises").mkdir(parents=True)
        nb = toy(with_manual=with_manual)
        nbformat.write(nb, root / "exercises" / "07_toy.ipynb")
        for name, text in files:
            path = root / "exercises" / "files" / "07" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Toy(root)

    return make


@pytest.fixture
def course(make_toy: Callable[..., Toy]) -> Toy:
    """The toy course as it is."""
    return make_toy()
