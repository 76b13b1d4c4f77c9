"""Where the course's files are: notebooks, data, exercises."""

from __future__ import annotations

import os
import re
from pathlib import Path

from labkit import store
from labkit.errors import LabError


def folder(start: Path | None = None) -> Path:
    """The course's folder: `start` or a parent, else the package's.

    It is known by its lessons and the data beside them. Raises LabError
    when none of the folders is one.
    """
    here = (start or Path.cwd()).absolute()
    package = Path(__file__).absolute().parents[1]
    for candidate in (here, *here.parents, package):
        inside = candidate / "notebooks"
        if (candidate / "data").is_dir() and any(inside.glob("0*.ipynb")):
            return candidate
    raise LabError(
        "The notebooks of the course are not here: run this in the folder "
        "that holds README.md and notebooks."
    )


def results_folder() -> Path:
    """Where a learner's own runs are kept; LABKIT_RESULTS moves it."""
    chosen = store.chosen(os.environ, "LABKIT_RESULTS")
    return chosen or folder() / "results"


def notebook(lesson: str, root: Path | None = None) -> Path:
    """The notebook of a lesson by its number; LabError for no such lesson."""
    if not re.fullmatch("[0-9]{1,2}", lesson):
        raise LabError(
            f"There is no lesson {lesson!r}: give its number, such as 01."
        )
    wanted = f"{lesson:0>2}_"
    found = notebooks(root)
    for path in found:
        if path.name.startswith(wanted):
            return path
    numbers = ", ".join(path.name[:2] for path in found)
    raise LabError(f"There is no lesson {lesson!r}: choose one of {numbers}.")


def notebooks(root: Path | None = None) -> list[Path]:
    """The notebooks of all lessons, in order."""
    found = (root or folder()) / "notebooks"
    return sorted(found.glob("[0-9][0-9]_*.ipynb"))


def without_home(text: str) -> str:
    """The text with this person's home folder written as ~.

    Only whole names in a path count: a folder whose name begins like the
    home's is not in it.
    """
    try:
        home = Path.home()
    except RuntimeError:  # in some containers a user has none
        return text
    # A shell may show the place that a linked home leads to.
    for place in {home, Path(os.path.realpath(home))}:
        if place == Path(place.anchor):
            continue
        # Windows does not tell upper case from lower.
        whole = rf"(?<![\w.-]){re.escape(str(place))}(?![\w-]|\.\w)"
        text = re.sub(whole, "~", text, flags=re.IGNORECASE)
    return text
