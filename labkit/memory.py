"""How a process grows while it works, and how much memory is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from labkit import machine

T = TypeVar("T")

CGROUP = Path("/sys/fs/cgroup")
INTERVAL_S = 0.001


@dataclass(frozen=True)
class Growth:
    """Resident bytes of this process around a piece of work.

    `peak` is the most that was seen, looking about every millisecond: what
    comes and goes between two looks is missed.
    """

    before: int
    peak: int
    after: int

    @property
    def at_peak(self) -> int:
        """Bytes above the start at the highest."""
        return self.peak - self.before

    @property
    def kept(self) -> int:
        """Bytes above the start at the end; may be negative."""
        return self.after - self.before


def watch(
    work: Callable[[], T], read: Callable[[], int] = machine.rss_bytes
) -> tuple[T, Growth]:
    """Do some work and see how the process grows meanwhile.

    The result of the work is still there when the end is read. `read` gives
    the resident bytes.
    """
    before = read()
    seen = [before]
    with _looking(lambda: seen.append(read())):
        result = work()
    after = read()
    return result, Growth(before, max(*seen, after), after)


@contextmanager
def _looking(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again from another thread until the block ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(INTERVAL_S):
            look()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def available_bytes(cgroup: Path = CGROUP) -> int:
    """Memory that a process can still take here without swapping.

    The system's own figure, or what a Linux container (cgroup v2) leaves
    where that is less. On a busy machine it changes from moment to moment.
    """
    free = int(psutil.virtual_memory().available)
    left = container_bytes(cgroup)
    return free if left is None else min(free, left)


def container_bytes(cgroup: Path) -> int | None:
    """What a container's memory limit leaves; None without a limit.

    Cached files that were not used lately count against the limit but make
    room when it is needed, so they are added.
    """
    try:
        limit = int(_text(cgroup / "memory.max"))  # "max" is no limit
        used = int(_text(cgroup / "memory.current"))
        lines = _text(cgroup / "memory.stat").splitlines()
        counts = {name: int(count) for name, count in map(str.split, lines)}
    except (OSError, ValueError):
        return None
    return max(0, limit - used + counts.get("inactive_file", 0))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
