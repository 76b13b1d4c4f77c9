"""Every lesson, executed once a session, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import pytest

from labkit.execution import Run, execute, normalise

from ..lessons import LESSONS, copy_course, load, shorten
from .anatomy import code_cells

Notebook: TypeAlias = Any


@dataclass(frozen=True)
class Executed:
    """A lesson as committed but shortened, and as a fresh run left that.

    `shorten` says what `committed` differs in from the file.
    """

    committed: Notebook
    fresh: Notebook
    run: Run


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
    notebooks = copy_course(tmp_path_factory.mktemp("tree"))

    def result(lesson: Path) -> Executed:
        notebook = shorten(load(lesson))
        copy = notebooks / lesson.name
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
