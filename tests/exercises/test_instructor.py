"""As an instructor would: the commands of INSTRUCTORS.md, from its text.

Exercise 04 is handed out; one right, one half right, one tampered and one
endless submission come back and are graded.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "exercises" / "planted" / "04"
COPY = "04_kv_cache_by_hand_exercises.ipynb"
HAND_OUT, GRADE = "handout-04", "handed-in-04"
ENDLESS = "while True:\n    pass"


def commands() -> list[list[str]]:
    """The indented commands of "Hand out, collect, grade", in order."""
    text = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
    section = text.split("## Hand out, collect, grade")[1].split("\n## ")[0]
    found = re.findall(r"^    python -m labkit (.+)$", section, re.MULTILINE)
    return [shlex.split(words) for words in found]


def labkit(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "labkit", *words],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def planted(cell: str, kind: str) -> str:
    path = sorted((PLANTED / cell).glob(f"{kind}_*.py"))[0]
    return path.read_text(encoding="utf-8")


def answers(nb: Any) -> list[Any]:
    """The cells that a student writes in, in order."""
    return [
        cell
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    ]


def solve(handed_out: Path, kinds: list[str]) -> Any:
    """The handed-out notebook with a planted answer of each kind."""
    nb = nbformat.read(handed_out, as_version=4)
    for cell, kind in zip(answers(nb), kinds, strict=True):
        cell.source = planted(cell.metadata.nbgrader["grade_id"], kind)
    return nb


def tamper(nb: Any) -> None:
    """Edit the first test, delete the second, rename the third."""
    tests = [
        cell
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    ]
    for cell in tests:
        cell.source = "pass"
        cell.metadata.nbgrader["points"] = 100
    nb.cells.remove(tests[1])
    tests[2].metadata.nbgrader["grade_id"] = "mine"


def test_the_commands_hand_out_and_grade() -> None:
    assert [words[:2] for words in commands()] == [
        ["release", "04"],
        ["grade", "04"],
        ["check", "04"],
    ]


def test_the_key_gets_all_points() -> None:
    said = labkit(commands()[2], ROOT)
    assert "20 of 20 points" in said


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the instructor worked, and what grading said."""
    folder = tmp_path_factory.mktemp("instructor")
    hand_out, grade, _ = commands()
    labkit(hand_out, folder)
    copy = folder / HAND_OUT / COPY
    count = len(answers(nbformat.read(copy, as_version=4)))
    right, wrong = ["right"] * count, ["wrong"] * count
    endless = solve(copy, right)
    answers(endless)[0].source = ENDLESS
    tampered = solve(copy, wrong)
    tamper(tampered)
    submissions = {
        "ada": solve(copy, right),
        "grace": solve(copy, right[: count // 2] + wrong[count // 2 :]),
        "mallory": tampered,
        "zeno": endless,
    }
    (folder / GRADE).mkdir()
    for student, nb in submissions.items():
        nbformat.write(nb, folder / GRADE / f"{student}.ipynb")
    return folder, labkit([*grade, "--cell-seconds", "5"], folder)


def report(graded: tuple[Path, str], student: str) -> dict[str, Any]:
    text = (graded[0] / "graded-04" / "grades.json").read_text(
        encoding="utf-8"
    )
    (found,) = [
        r for r in json.loads(text)["reports"] if r["student"] == student
    ]
    assert isinstance(found, dict)
    return found


# Exercises 1 to 4 give 4, 5, 5 and 6 points. By its first line each planted
# wrong answer keeps 3, 0, 3 and 1 of them.
EXPECTED = {
    "ada": 20,
    "grace": 4 + 5 + 3 + 1,
    "mallory": 3 + 0 + 3 + 1,
    "zeno": 0 + 5 + 5 + 6,
}


def test_all_four_get_the_points_that_they_earned(
    graded: tuple[Path, str],
) -> None:
    table = graded[0] / "graded-04" / "grades.csv"
    with table.open(encoding="utf-8-sig", newline="") as stream:
        rows = {row["student"]: row for row in csv.DictReader(stream)}
    points = {name: float(row["points"]) for name, row in rows.items()}
    assert points == EXPECTED
    assert {row["max_points"] for row in rows.values()} == {"20"}
    remarks = {name: int(row["remarks"]) for name, row in rows.items()}
    assert remarks["ada"] == remarks["grace"] == 0
    assert remarks["zeno"] == 1
    assert remarks["mallory"] > 1


def test_what_the_tampered_one_changed_is_told(
    graded: tuple[Path, str],
) -> None:
    notes = report(graded, "mallory")["notes"]
    assert "Cell test_positions_without was edited" in notes[0]
    assert "Cell test_positions_with is missing" in notes[1]
    assert "Cell mine is none of this lesson's." in notes


def test_the_endless_one_loses_the_points_of_that_cell(
    graded: tuple[Path, str],
) -> None:
    found = report(graded, "zeno")
    assert found["notes"] == ["Cell counts: it did not end within 5 s."]
    lost = {r["grade_id"] for r in found["results"] if not r["points"]}
    assert lost == {
        "test_positions_without",
        "test_positions_with",
        "test_looks_with",
        "test_kept_bytes",
    }


def test_each_has_feedback_that_gives_nothing_away(
    graded: tuple[Path, str],
) -> None:
    folder = graded[0] / "graded-04" / "feedback"
    texts = {p.stem: p.read_text(encoding="utf-8") for p in folder.iterdir()}
    assert set(texts) == set(EXPECTED)
    for student, text in texts.items():
        assert f"{EXPECTED[student]} of 20 points" in text
        assert "HIDDEN" not in text


def test_what_is_in_force_is_said_first(graded: tuple[Path, str]) -> None:
    first = graded[1].splitlines()[0]
    assert first.startswith("Network: ")
    assert "Memory: 1,024 MiB" in first
