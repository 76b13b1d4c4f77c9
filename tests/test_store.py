"""Folders named by variables, and folders that Windows will not rename."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labkit import course, store
from labkit.errors import LabError


def test_folders_are_settled_where_the_command_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABKIT_HOME", "cache")
    monkeypatch.setenv("LABKIT_RESULTS", "runs")
    store.settle(os.environ)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert store.home() == tmp_path / "cache"
    assert course.results_folder() == tmp_path / "runs"


def test_settling_leaves_the_rest_alone() -> None:
    whole = str(Path("somewhere").absolute())
    environment = {"LABKIT_HOME": whole, "LABKIT_RESULTS": "", "X": "y"}
    before = dict(environment)
    store.settle(environment)
    assert environment == before


def test_a_tilde_stands_for_the_home_folder() -> None:
    environment = {"LABKIT_HOME": "~/x", "LABKIT_RESULTS": "~/y"}
    store.settle(environment)
    assert environment["LABKIT_HOME"] == str(Path.home() / "x")
    assert environment["LABKIT_RESULTS"] == str(Path.home() / "y")


def test_a_tilde_of_nobody_is_one_sentence() -> None:
    with pytest.raises(LabError, match="LABKIT_HOME is '~no-such-user/x'"):
        store.settle({"LABKIT_HOME": "~no-such-user/x"})


def test_a_file_is_no_home(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.touch()
    for place in (path, path / "below"):
        with pytest.raises(LabError, match="a file or below one"):
            store.settle({"LABKIT_HOME": str(place)})


class Renames:
    """Renames like a system that forbids some: `refused` says which."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: list[bool] = []
        self._rename = Path.rename
        monkeypatch.setattr(store, "RENAME_PAUSE_S", 0.0)
        renames = self

        def rename(source: Path, target: Path) -> Path:
            if renames.refused and renames.refused.pop(0):
                raise PermissionError(13, "Access is denied")
            return renames._rename(source, target)

        monkeypatch.setattr(Path, "rename", rename)


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> Renames:
    return Renames(monkeypatch)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A finished folder under a cache folder."""
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("old", encoding="utf-8")
    return folder


def replace(target: Path) -> None:
    """Put new weights in the place of the old."""
    with store.replacing(target, target.parents[1]) as fresh:
        (fresh / "weights").write_text("new", encoding="utf-8")


@pytest.mark.parametrize("refused", [[True] * 3, [False, True, True]])
def test_a_folder_that_is_read_for_a_moment(
    target: Path, renames: Renames, refused: list[bool]
) -> None:
    renames.refused = refused
    replace(target)
    assert (target / "weights").read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("first", [[], [False]])
def test_a_folder_in_use_stays_and_the_sentence_says_why(
    target: Path, renames: Renames, first: list[bool]
) -> None:
    renames.refused = [*first, *[True] * store.RENAME_TRIES]
    with pytest.raises(LabError, match="close JupyterLab") as caught:
        replace(target)
    assert "LABKIT_HOME" not in str(caught.value)
    assert (target / "weights").read_text(encoding="utf-8") == "old"
    assert not (target.parents[1] / "staging").exists()


# Where the course is


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What makes a folder the course: its lessons and their data."""
    for name in ("notebooks", "data"):
        (tmp_path / "copy" / name).mkdir(parents=True)
    (tmp_path / "copy" / "notebooks" / "01_x.ipynb").touch()
    return tmp_path / "copy"


def test_lessons_in_a_copy_use_its_data(copy: Path) -> None:
    assert course.folder(copy) == copy
    assert course.folder(copy / "notebooks") == copy


@pytest.mark.parametrize("without", ["data", "notebooks/01_x.ipynb"])
def test_elsewhere_the_course_is_where_its_package_is(
    copy: Path, without: str
) -> None:
    path = copy / without
    path.rmdir() if path.is_dir() else path.unlink()
    assert course.folder(copy) == Path(course.__file__).parents[1]
