"""Exercises as a learner solves them: typed in JupyterLab, then checked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.exercises.handout import copy_name
from labkit.exercises.source import SOLUTION, load_source

from ..lessons import REPOSITORY
from .driver import Lab

LESSON = "03"
WRONG = "exercises/planted/03/least/wrong_always_four_bytes.py"
pytestmark = [pytest.mark.browser, pytest.mark.model]


def command(course: Path, name: str) -> subprocess.CompletedProcess[str]:
    """`python -m labkit` in a terminal, in the course's folder."""
    return subprocess.run(
        [sys.executable, "-m", "labkit", name, LESSON],
        cwd=course,
        capture_output=True,
        text=True,
        check=False,
    )


def solutions() -> dict[str, str]:
    """Answer cell id -> the source's own answer, without its markers."""
    cells = load_source(LESSON, REPOSITORY).cells
    return {
        cell.id: "\n".join(
            line
            for line in cell.source.split("\n")
            if not any(marker in line for marker in SOLUTION)
        )
        for cell in cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def answer(lab: Lab, cell_id: str, text: str) -> None:
    """Type an answer over what stands in a cell, and save."""
    lab.cell(cell_id).locator(".cm-content").click()
    lab.page.keyboard.press("ControlOrMeta+a")
    lab.page.keyboard.insert_text(text)
    saved = {cell.id: cell.source for cell in lab.save().cells}
    assert saved[cell_id] == text


def left(course: Path) -> tuple[int, set[str]]:
    """What `check` says: exit status, and exercises with something left."""
    done = command(course, "check")
    parts = re.split(r"^Exercise (\d): .*$", done.stdout, flags=re.M)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    print(done.stdout)
    return done.returncode, {
        number for number, said in pairs if re.search("not done|failed", said)
    }


def test_check_tells_a_learner_what_is_left(
    lab: Lab, course_copy: Path
) -> None:
    assert command(course_copy, "exercise").returncode == 0
    lab.open(f"exercises/mine/{copy_name(LESSON, course_copy)}")
    right = solutions()
    assert list(right) == ["seconds", "measures", "least", "generate"]
    assert left(course_copy) == (1, {"1", "2", "3", "4"})
    answer(lab, "seconds", right["seconds"])
    answer(lab, "measures", right["measures"])
    wrong = (REPOSITORY / WRONG).read_text(encoding="utf-8")
    answer(lab, "least", wrong)
    assert left(course_copy) == (1, {"3", "4"})
    answer(lab, "least", right["least"])
    answer(lab, "generate", right["generate"])
    assert left(course_copy) == (0, set())
    lab.run_all()
    assert not any(
        output.output_type == "error"
        for cell in lab.save().cells
        for output in cell.get("outputs", ())
    )
    assert lab.console_errors == []
