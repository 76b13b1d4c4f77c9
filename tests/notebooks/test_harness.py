"""The harness as a whole, on folders with one small lesson."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labkit.execution import rerun, to_text
from labkit.records import MIME

from ..lessons import shorten
from .synthetic import Notebook, cell_of, lesson


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


@pytest.fixture
def committed(folder: Path) -> Path:
    path = folder / "01_one_dot.ipynb"
    path.write_text(to_text(lesson()), encoding="utf-8", newline="\n")
    return path


TWO_WORKERS = ("--numprocesses", "2")


def run_tests(folder: Path, *options: str) -> tuple[set[str], str]:
    """Names of the cases that failed, and the whole report."""
    report = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            *options,
            str(Path(__file__).with_name("test_lessons.py")),
        ],
        env={**os.environ, "LABKIT_TEST_NOTEBOOKS": str(folder)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        encoding="utf-8",
        check=False,
    ).stdout
    failed = re.findall(r"^FAILED \S+::(test_\S+)", report, flags=re.M)
    return set(failed), report


def change(path: Path, notebook: Notebook) -> None:
    path.write_text(to_text(notebook), encoding="utf-8", newline="\n")


def summary(report: str) -> list[str]:
    """The lessons that the report says were executed, once each time."""
    return re.findall(r"(?m)^(\w+) +\d+\.\d s +\d+ MiB at most", report)


@pytest.mark.model
def test_good_lessons_pass_and_each_is_executed_by_one_of_two_workers(
    committed: Path,
) -> None:
    before = committed.read_bytes()
    committed.with_name("02_twin.ipynb").write_bytes(before)
    failed, report = run_tests(committed.parent, *TWO_WORKERS)
    assert failed == set(), report
    assert summary(report) == ["01_one_dot", "02_twin"], report
    assert committed.read_bytes() == before


@pytest.mark.model
def test_changed_values_fail_with_the_cell_named(committed: Path) -> None:
    notebook = lesson()
    ids, count = cell_of(notebook, "token-ids").outputs
    ids.data[MIME]["value"][1] += 1
    count.data[MIME]["value"] += 1
    cell_of(notebook, "measure").source = "## Measuring"
    change(committed, notebook)
    failed, report = run_tests(committed.parent)
    assert failed == {
        "test_anatomy[01_one_dot-records]",
        "test_anatomy[01_one_dot-sections]",
        "test_cell[01_one_dot-token-ids]",
    }
    assert "token-ids: ids: first difference at [1]: was 6464" in report
    assert "token-ids: new tokens: was 17, now 16" in report
    assert "cell measure: section 6 is 'Measuring'" in report
    assert summary(report) == ["01_one_dot"]


@pytest.mark.model
def test_a_broken_cell_fails_and_those_after_it(committed: Path) -> None:
    notebook = lesson()
    cell_of(notebook, "refusal").source = "1 / 0"
    cell_of(notebook, "refusal").metadata.tags = []
    change(committed, notebook)
    failed, report = run_tests(committed.parent)
    after = ("refusal", "time-it", "draw", "table")
    assert failed == {
        "test_anatomy[01_one_dot-no_errors]",
        "test_the_run_ended_well[01_one_dot]",
    } | {f"test_cell[01_one_dot-{name}]" for name in after}
    assert "cell refusal: raised ZeroDivisionError" in report
    assert "draw: not reached, cell 'refusal' raised" in report


def test_an_empty_folder_fails(folder: Path) -> None:
    failed, _ = run_tests(folder)
    assert failed == {"test_there_are_lessons"}


def test_the_example_is_what_a_rerun_writes(committed: Path) -> None:
    before = committed.read_bytes()
    rerun(committed)
    assert committed.read_bytes() == before
    assert nbformat.read(committed, as_version=4) == lesson()


@pytest.mark.parametrize("values", ["REPEATS_OF, 2, 0", "5,2,0", "(5, 2, 0)"])
def test_repeats_that_would_not_be_shortened_are_told(values: str) -> None:
    notebook = lesson()
    cell_of(notebook, "imports").source = f"REPEATS, WARMUPS, SEED = {values}"
    with pytest.raises(AssertionError, match="imports sets its repeats"):
        shorten(notebook)


def test_a_lesson_is_run_with_few_repeats() -> None:
    notebook = lesson()
    source = "REPEATS, WARMUPS, SEED = 5, 2, 7\nROUNDS = 3  # long ones"
    cell_of(notebook, "imports").source = source
    cell = cell_of(shorten(notebook), "imports")
    wanted = "REPEATS, WARMUPS, SEED = 1, 0, 7\nROUNDS = 1  # long ones"
    assert cell.source == wanted
