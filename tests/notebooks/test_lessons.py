"""Each lesson: its anatomy, and a fresh run against its committed outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labkit.execution import to_text

from .anatomy import RULES, Cell, Notebook
from .compare import differences

if TYPE_CHECKING:
    from .conftest import Executed

MEMORY_LIMIT = 3 * 2**29  # 1.5 GiB: what a small cloud machine leaves


def test_there_are_lessons(lessons: list[Path]) -> None:
    assert lessons


@pytest.mark.parametrize("rule", RULES)
def test_anatomy(committed: Notebook, lesson: Path, rule: str) -> None:
    found = RULES[rule](committed)
    assert not found, _listed(lesson, found)


def test_file_text(committed: Notebook, lesson: Path) -> None:
    """The file has nbformat's own layout, so that diffs stay small."""
    text = lesson.read_bytes().decode("utf-8")
    same = text == to_text(committed)
    assert same, f"{lesson.name}: write it with `python -m labkit rerun`"


@pytest.mark.model
def test_cell(executed: Executed, lesson: Path, cell_id: str) -> None:
    fresh = _cell(executed.fresh, cell_id)
    if fresh.source.strip() and fresh.execution_count is None:
        pytest.fail(f"{cell_id}: not reached, {executed.run.error}")
    found = differences(_cell(executed.committed, cell_id), fresh)
    assert not found, _listed(lesson, found)


@pytest.mark.model
def test_the_run_ended_well(executed: Executed, lesson: Path) -> None:
    assert executed.run.error is None, f"{lesson.name}: {executed.run.error}"


@pytest.mark.model
def test_memory(executed: Executed, lesson: Path) -> None:
    """The kernel and every process it starts, together."""
    peak = executed.run.peak_bytes
    assert 0 < peak <= MEMORY_LIMIT, (
        f"{lesson.name}: {peak / 2**20:.0f} MiB, at most"
        f" {MEMORY_LIMIT / 2**20:.0f} MiB"
    )


@pytest.mark.model
def test_nothing_is_left_running(executed: Executed, lesson: Path) -> None:
    left = executed.run.leftovers
    assert not left, f"{lesson.name}: still running after the kernel: {left}"


def _cell(notebook: Notebook, cell_id: str) -> Cell:
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def _listed(lesson: Path, found: list[str]) -> str:
    return "\n".join(f"{lesson.name}, cell {text}" for text in found)
