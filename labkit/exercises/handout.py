"""What learners get: the student copy, its files, a page of what to do."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from labkit.errors import LabError
from labkit.exercises.source import (
    exercises_of,
    lesson_number,
    load_source,
    needed_files,
    source_path,
    student_copy,
)
from labkit.store import write_text


def copy_name(lesson: str | int, root: Path) -> str:
    """File name of a lesson's student copy."""
    return f"{source_path(lesson, root).stem}_exercises.ipynb"


def saved(path: Path) -> str:
    """Which file is read, and when it was saved, in local time."""
    moment = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    return (
        f"Read {path.name}, saved on {moment:%d %B at %H:%M:%S}; what you "
        "typed since is not in it."
    )


def write_student_copy(lesson: str | int, folder: Path, root: Path) -> Path:
    """Write the student's copy and the files it needs; the copy's path.

    Raises LabError where one is there already: it may hold work.
    """
    path = folder / copy_name(lesson, root)
    if path.exists():
        raise LabError(
            f"{path} is there already and was left as it is; go on with it, "
            "or rename it to start afresh."
        )
    copy = student_copy(load_source(lesson, root))
    with writing_to(folder):
        _copy_files(needed_files(lesson, root), folder)
        write_text(path, _text(copy))
    return path


def release(lesson: str | int, out: Path, root: Path) -> Path:
    """Make the folder to hand out: student copy, files and README.md.

    It holds no solution and no hidden test. Raises LabError where `out`
    exists and is not an empty folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LabError(
            f"{out} is not empty and was left as it is; name a new folder."
        )
    source = load_source(lesson, root)
    with writing_to(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{out.name}.", dir=out.parent
        ) as scratch:
            fresh = Path(scratch) / "release"
            fresh.mkdir()
            name = write_student_copy(lesson, fresh, root).name
            write_text(fresh / "README.md", _readme(source, name, lesson))
            _let_others_read(fresh)
            if out.exists():
                out.rmdir()
            fresh.replace(out)
    return out


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """A refusal of the disk as one sentence that names the folder."""
    try:
        yield
    except OSError as error:
        raise LabError(
            f"{folder} cannot be written to ({error.strerror or error}); "
            "name another folder or make room."
        ) from error


def _copy_files(files: Path | None, folder: Path) -> None:
    """Copy what lies in a folder; what is there already stays."""
    for file in sorted(files.rglob("*")) if files else []:
        target = folder / file.relative_to(files or file)
        if file.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _let_others_read(folder: Path) -> None:
    """Files written in one step are private; a hand-out is not."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o644)


def _text(nb: NotebookNode) -> str:
    return nbformat.writes(nb).rstrip("\n") + "\n"


def _readme(source: NotebookNode, name: str, lesson: str | int) -> str:
    exercises = exercises_of(source)
    points = sum(exercise.points for exercise in exercises)
    rows = "\n".join(
        f"| {e.title} | {e.points:g} | {e.minutes} min |" for e in exercises
    )
    return f"""\
# Exercises of lesson {lesson_number(lesson)}

Open `{name}` in JupyterLab. Each exercise says what to write, what is
checked and about how long it takes. Write in the cells that hold
`# YOUR CODE HERE` and put your code in place of the line that raises
NotImplementedError. You may add cells of your own.

| exercise | points | time |
| --- | ---: | ---: |
{rows}
| together | {points:g} | |

Run the whole notebook before you hand it in: a test cell that ends without
an error has passed. The grading runs more tests than you see, of the same
kind, on other inputs. It takes your own cells only, so changes to a test
cell do not count.

Hand in this one file: `{name}`, saved, with its cells where they are.
"""
