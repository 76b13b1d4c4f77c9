"""Growth around some work, and what memory is left."""

from __future__ import annotations

import mmap
import threading
from pathlib import Path

import psutil
import pytest

from labkit import memory
from labkit.memory import Growth


def test_growth_is_counted_from_the_start() -> None:
    seen = Growth(before=100, peak=170, after=90)
    assert (seen.at_peak, seen.kept) == (70, -10)


def test_a_peak_between_start_and_end_is_seen() -> None:
    looked = threading.Event()
    resident = 100

    def read() -> int:
        if resident == 700:
            looked.set()
        return resident

    def work() -> str:
        nonlocal resident
        resident = 700
        assert looked.wait(10)
        resident = 300
        return "done"

    result, seen = memory.watch(work, read)
    assert result == "done"
    assert seen == Growth(before=100, peak=700, after=300)


def test_the_end_counts_as_a_peak() -> None:
    readings = iter([100, 300])
    _, seen = memory.watch(lambda: None, lambda: next(readings, 300))
    assert (seen.peak, seen.after) == (300, 300)


def test_nobody_looks_on_after_work_that_failed() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        memory.watch(fail)
    assert threading.active_count() == before


def test_written_memory_is_seen() -> None:
    size = 64 * 2**20

    def write() -> mmap.mmap:
        pages = mmap.mmap(
            -1, size
        )  # new ones: a heap would use old ones again
        for start in range(0, size, mmap.PAGESIZE):
            pages[start] = 1
        return pages

    data, seen = memory.watch(write)
    assert len(data) == size
    assert seen.at_peak > size // 2


def container(folder: Path, limit: str, used: str, stat: str) -> Path:
    for name, text in (("max", limit), ("current", used), ("stat", stat)):
        (folder / f"memory.{name}").write_text(text, encoding="utf-8")
    return folder


def test_a_container_leaves_its_limit_less_what_is_used(
    tmp_path: Path,
) -> None:
    folder = container(
        tmp_path, "1000\n", "700\n", "anon 300\ninactive_file 250\n"
    )
    assert memory.container_bytes(folder) == 550
    assert memory.available_bytes(folder) == 550


def test_a_full_container_leaves_nothing(tmp_path: Path) -> None:
    folder = container(tmp_path, "1000", "1200", "anon 1200")
    assert memory.container_bytes(folder) == 0


@pytest.mark.parametrize("limit", ["max\n", "", "many"])
def test_no_limit(tmp_path: Path, limit: str) -> None:
    folder = container(tmp_path, limit, "700", "anon 300")
    assert memory.container_bytes(folder) is None


def test_without_a_container_the_system_tells(tmp_path: Path) -> None:
    assert memory.container_bytes(tmp_path) is None
    free = memory.available_bytes(tmp_path)
    assert 0 < free <= psutil.virtual_memory().total
