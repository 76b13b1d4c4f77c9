"""Every lesson, executed once a session, for the tests beside this file.

The lessons are `NN_*.ipynb` in the repository's notebooks folder, or in the
folder that the environment variable LABKIT_TEST_NOTEBOOKS names.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import pytest

from labkit.execution import Run, execute, normalise

from .anatomy import REPOSITORY, code_cells

Notebook: TypeAlias = Any

NOTEBOOKS = Path(
    os.environ.get("LABKIT_TEST_NOTEBOOKS", REPOSITORY / "notebooks")
).resolve()
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


@dataclass(frozen=True)
class Executed:
    """A lesson as committed but shortened, and as a fresh run left that.

    `shorten` says what `committed` differs in from the file.
    """

    committed: Notebook
    fresh: Notebook
    run: Run


SETS_REPEATS = "REPEATS, WARMUPS, SEED ="
REPEATS = re.compile(rf"{SETS_REPEATS} \d+, \d+, ")
ROUNDS = re.compile(r"^ROUNDS = \d+", re.MULTILINE)
"""Beside the repeats: those of runs that take long."""
TEN = re.compile(r"repeats=10,(\s+)warmups=2\b")
"""How lesson 01 measures, before a lesson has names for it."""


def shorten(notebook: Notebook) -> Notebook:
    """The same lesson without repeats, for no test judges a time.

    What the cell that sets them prints is then another text. AssertionError
    for a cell that sets them in another way, and would run in full.
    """
    for cell in code_cells(notebook):
        cell.source = TEN.sub(r"repeats=1,\1warmups=0", cell.source)
        if SETS_REPEATS in cell.source:
            cell.source, found = REPEATS.subn(
                f"{SETS_REPEATS} 1, 0, ", cell.source
            )
            assert found == cell.source.count(SETS_REPEATS), (
                f"{cell.id} sets its repeats in a way that is not shortened"
            )
            cell.source = ROUNDS.sub("ROUNDS = 1", cell.source)
            tags = set(cell.metadata.get("tags", ()))
            cell.metadata["tags"] = sorted(tags - {"check-exact"})
    return notebook


def load(path: Path) -> Notebook:
    """The notebook as it is, even where it breaks a rule."""
    return nbformat.read(path, as_version=4)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case a code cell, or one a lesson, as the test asks for."""
    wanted = set(metafunc.fixturenames)
    if {"lesson", "cell_id"} <= wanted:
        cells = [(p, cell.id) for p in LESSONS for cell in code_cells(load(p))]
        names = [f"{path.stem}-{cell_id}" for path, cell_id in cells]
        metafunc.parametrize(("lesson", "cell_id"), cells, ids=names)
    elif "lesson" in wanted:
        metafunc.parametrize("lesson", LESSONS, ids=[p.stem for p in LESSONS])


@pytest.fixture(scope="session")
def lessons() -> list[Path]:
    return LESSONS


@pytest.fixture
def committed(lesson: Path) -> Notebook:
    return load(lesson)


@pytest.fixture(scope="session")
def runs() -> dict[Path, Executed]:
    """The lessons that this process has executed."""
    return {}


@pytest.fixture(scope="session")
def execute_lesson(
    tmp_path_factory: pytest.TempPathFactory, model_home: Path
) -> Callable[[Path], Executed]:
    """Runs a lesson in a copy that it may write to."""
    tree = tmp_path_factory.mktemp("tree")
    beside = [NOTEBOOKS.parent / name for name in ("data", "exercises")]
    for folder in (NOTEBOOKS, *beside):
        if folder.is_dir():
            ignored = shutil.ignore_patterns(".ipynb_checkpoints")
            shutil.copytree(folder, tree / folder.name, ignore=ignored)

    def result(lesson: Path) -> Executed:
        notebook = shorten(load(lesson))
        copy = tree / NOTEBOOKS.name / lesson.name
        nbformat.write(notebook, copy)
        run = execute(copy, environment={"LABKIT_HOME": str(model_home)})
        return Executed(notebook, normalise(run.notebook, notebook), run)

    return result


@pytest.fixture
def executed(
    lesson: Path,
    runs: dict[Path, Executed],
    execute_lesson: Callable[[Path], Executed],
    tell_executed: Callable[[str], None],
) -> Executed:
    """The run of a lesson, which the first test that asks for it starts."""
    if lesson not in runs:
        runs[lesson] = execute_lesson(lesson)
        tell_executed(_summary(lesson, runs[lesson].run))
    return runs[lesson]


def _summary(lesson: Path, run: Run) -> str:
    return (
        f"{lesson.stem:<30} {run.seconds:6.1f} s"
        f" {run.peak_bytes / 2**20:7.0f} MiB at most"
        + (f"   {run.error}" if run.error else "")
    )
