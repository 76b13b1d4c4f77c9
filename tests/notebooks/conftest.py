"""Every lesson, executed once a session, for the tests beside this file.

The lessons are `NN_*.ipynb` in the repository's notebooks folder, or in the
folder that the environment variable LABKIT_TEST_NOTEBOOKS names.
"""

from __future__ import annotations

import os
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
    """A lesson as committed, and as a fresh run left it."""

    committed: Notebook
    fresh: Notebook
    run: Run


RUNS = pytest.StashKey[dict[Path, Executed]]()


def load(path: Path) -> Notebook:
    """The notebook as it is, even where it breaks a rule."""
    return nbformat.read(path, as_version=4)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUNS] = {}


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
def run_lesson(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    model_home: Path,
) -> Callable[[Path], Executed]:
    """Runs a lesson at the first call, in a copy that it may write to."""
    runs = pytestconfig.stash[RUNS]
    tree = tmp_path_factory.mktemp("tree")
    beside = [NOTEBOOKS.parent / name for name in ("data", "exercises")]
    for folder in (NOTEBOOKS, *beside):
        if folder.is_dir():
            ignored = shutil.ignore_patterns(".ipynb_checkpoints")
            shutil.copytree(folder, tree / folder.name, ignore=ignored)

    def result(lesson: Path) -> Executed:
        if lesson not in runs:
            notebook = load(lesson)
            run = execute(
                tree / NOTEBOOKS.name / lesson.name,
                environment={"LABKIT_HOME": str(model_home)},
            )
            fresh = normalise(run.notebook, notebook)
            runs[lesson] = Executed(notebook, fresh, run)
        return runs[lesson]

    return result


@pytest.fixture
def executed(lesson: Path, run_lesson: Callable[[Path], Executed]) -> Executed:
    return run_lesson(lesson)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Run time, which is never judged, and peak memory of each lesson."""
    runs = config.stash[RUNS]
    if not runs:
        return
    terminalreporter.section("lessons executed")
    for path, executed in sorted(runs.items()):
        run = executed.run
        terminalreporter.write_line(
            f"{path.stem:<30} {run.seconds:6.1f} s"
            f" {run.peak_bytes / 2**20:7.0f} MiB at most"
            + (f"   {run.error}" if run.error else "")
        )
