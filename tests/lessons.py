"""The lessons that tests open and execute, and shorter copies of them.

They are `NN_*.ipynb` in the repository's notebooks folder, or in the folder
that the environment variable LABKIT_TEST_NOTEBOOKS names.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import pytest

Notebook: TypeAlias = Any

REPOSITORY = Path(__file__).parents[1]
NOTEBOOKS = Path(
    os.environ.get("LABKIT_TEST_NOTEBOOKS", REPOSITORY / "notebooks")
).resolve()
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
IN_BROWSER = ("01", "05", "07")
"""Run in JupyterLab by each `make test`: the first, one with sliders, one
with a server process. `make browser` runs every lesson there."""

SETS_REPEATS = "REPEATS, WARMUPS, SEED ="
REPEATS = re.compile(rf"{SETS_REPEATS} \d+, \d+, ")
ROUNDS = re.compile(r"^ROUNDS = \d+", re.MULTILINE)
"""Beside the repeats: those of runs that take long."""
TEN = re.compile(r"repeats=10,(\s+)warmups=2\b")
"""How lesson 01 measures, before a lesson has names for it."""


def browser_cases() -> list[Any]:
    """One for each lesson; most of them only with --every-lesson."""
    rest = [pytest.mark.every_lesson]
    return [
        pytest.param(
            path,
            id=path.stem,
            marks=[] if path.name[:2] in IN_BROWSER else rest,
        )
        for path in LESSONS
    ]


def load(path: Path) -> Notebook:
    """The notebook as it is, even where it breaks a rule."""
    return nbformat.read(path, as_version=4)


def copy_course(root: Path) -> Path:
    """The course in `root`, where it may be written to; its notebooks."""
    beside = [NOTEBOOKS.parent / name for name in ("data", "exercises")]
    for folder in (NOTEBOOKS, *beside):
        if folder.is_dir():
            ignored = shutil.ignore_patterns(".ipynb_checkpoints")
            shutil.copytree(folder, root / folder.name, ignore=ignored)
    return root / NOTEBOOKS.name


def shorten(notebook: Notebook) -> Notebook:
    """The same lesson without repeats, for no test judges a time.

    What the cell that sets them prints is then another text. AssertionError
    for a cell that sets them in another way, and would run in full.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
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
