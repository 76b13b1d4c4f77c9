"""A process and all that it started: what it uses, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

Process = subprocess.Popen[bytes]

_LEAST_BYTES = 16_384


def members(leader: int) -> list[psutil.Process]:
    """The process, its descendants, and on POSIX all of its session."""
    found: set[int] = {leader}
    with suppress(psutil.Error):
        children = psutil.Process(leader).children(recursive=True)
        found |= {child.pid for child in children}
    if sys.platform != "win32":
        # Also reaches children whose parent has ended.
        found |= {pid for pid in psutil.pids() if _session(pid) == leader}
    family = []
    for pid in found:
        with suppress(psutil.Error):
            family.append(psutil.Process(pid))
    return family


def _session(pid: int) -> int | None:
    if sys.platform != "win32":
        with suppress(OSError):
            return os.getsid(pid)
    return None


def memory(family: list[psutil.Process], enough: int) -> int:
    """Bytes that the processes hold; exact only above `enough`.

    Processes that were forked share memory. Counting it once takes longer,
    so it is done where the simple sum is above `enough`.
    """
    simple = sum(_resident(process) for process in family)
    if simple <= enough:
        return simple
    return sum(_share(process) for process in family)


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _share(process: psutil.Process) -> int:
    """Memory with what is shared divided; on some systems without it."""
    with suppress(psutil.Error):
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.uss))
    return _resident(process)


def written(folder: Path, enough: int) -> int:
    """Bytes of all files in a folder, counted up to `enough`.

    Each file and folder counts for 16 KiB at least: many small ones fill a
    disk, too.
    """
    total, folders = 0, [folder]
    while folders and total <= enough:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):  # it may be gone by now
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    found = entry.stat(follow_symlinks=False)
                    total += max(_LEAST_BYTES, found.st_size)
    return total


def end(process: Process) -> None:
    """Kill the process, its children, and on POSIX its whole session."""
    family: list[psutil.Process] = []
    with suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    if sys.platform != "win32":
        # Also reaches children whose parent has ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for child in family:
        with suppress(psutil.Error):
            child.kill()
    process.wait()
