"""Where the course's files are: notebooks, data, exercises."""

from __future__ import annotations

import os
from pathlib import Path

from labkit.errors import LabError


def folder(start: Path | None = None) -> Path:
    """The course's folder: `start` or a parent, else the package's.

    Raises LabError when there are no notebooks in any of them.
    """
    here = (start or Path.cwd()).absolute()
    package = Path(__file__).absolute().parents[1]
    for candidate in (here, *here.parents, package):
        inside = candidate / "notebooks"
        if (candidate / "labkit").is_dir() and any(inside.glob("0*.ipynb")):
            return candidate
    raise LabError(
        "The notebooks of the course are not here: run this in the folder "
        "that holds README.md and notebooks."
    )


def results_folder() -> Path:
    """Where a learner's own runs are kept; LABKIT_RESULTS moves it."""
    chosen = os.environ.get("LABKIT_RESULTS")
    return Path(chosen).absolute() if chosen else folder() / "results"


def notebook(lesson: str, root: Path | None = None) -> Path:
    """The notebook of a lesson by its number; LabError for no such lesson."""
    folder_of_notebooks = (root or folder()) / "notebooks"
    wanted = f"{lesson:0>2}_"
    found = sorted(folder_of_notebooks.glob("[0-9][0-9]_*.ipynb"))
    for path in found:
        if path.name.startswith(wanted):
            return path
    numbers = ", ".join(path.name[:2] for path in found)
    raise LabError(f"There is no lesson {lesson!r}: choose one of {numbers}.")


def without_home(text: str) -> str:
    """The text with this person's home folder written as ~."""
    home = str(Path.home())
    return text if home == os.sep else text.replace(home, "~")
