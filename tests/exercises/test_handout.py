"""The learner's copy and the hand-out."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labkit.errors import LabError
from labkit.exercises import release, saved, write_student_copy
from labkit.exercises.source import left_over_markers

NAME = "07_toy_exercises.ipynb"


def test_the_copy_is_written_where_the_learner_works(
    course: Any, tmp_path: Path
) -> None:
    path = write_student_copy(7, tmp_path / "new" / "work", course.root)
    assert path == tmp_path / "new" / "work" / NAME
    nb = nbformat.read(path, as_version=4)
    assert [c.id for c in nb.cells] == [c.id for c in course.source.cells]
    assert left_over_markers(path.read_text(encoding="utf-8")) == []


def test_work_that_is_there_is_never_overwritten(
    make_toy: Callable[..., Any], tmp_path: Path
) -> None:
    toy = make_toy(files=[("notes.txt", "from the course")])
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    path = write_student_copy(7, tmp_path, toy.root)
    path.write_text("work of a week", encoding="utf-8")
    with pytest.raises(LabError, match=r"left as it is; .* rename it"):
        write_student_copy(7, tmp_path, toy.root)
    assert path.read_text(encoding="utf-8") == "work of a week"
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_release_holds_the_copy_its_files_and_what_to_do(
    make_toy: Callable[..., Any], tmp_path: Path
) -> None:
    toy = make_toy(files=[("data/record.txt", "1 2 3")])
    out = release("07", tmp_path / "out" / "lesson", toy.root)
    found = {
        path.relative_to(out).as_posix(): path.read_text(encoding="utf-8")
        for path in out.rglob("*")
        if path.is_file()
    }
    assert sorted(found) == [NAME, "README.md", "data/record.txt"]
    assert "| Exercise 1: double | 3 | 5 min |" in found["README.md"]
    assert f"Hand in this one file: `{NAME}`" in found["README.md"]
    assert not any("SECRET" in text for text in found.values())
    assert [p.name for p in out.parent.iterdir()] == ["lesson"]
    modes = {path.stat().st_mode & 0o444 for path in out.rglob("*")}
    assert modes == {0o444}


def test_a_release_goes_into_an_empty_folder_only(
    course: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    release("07", out, course.root)
    with pytest.raises(LabError, match="not empty and was left"):
        release("07", out, course.root)


def test_a_place_that_cannot_be_written_is_one_sentence(
    course: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("taken", encoding="utf-8")
    for make in (release, write_student_copy):
        with pytest.raises(LabError, match="cannot be written to"):
            make("07", tmp_path / "file" / "inside", course.root)


def test_the_file_that_is_read_is_named_with_its_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.ipynb"
    path.touch()
    moment = datetime(2026, 3, 4, 5, 6, 7).astimezone()
    os.utime(path, (moment.timestamp(), moment.timestamp()))
    assert "mine.ipynb, saved on 04 March at 05:06:07" in saved(path)
