"""This machine: what it is, which software runs, and how fast it can be.

Nothing here identifies a person: no host name, no user name, no path.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import psutil

from labkit import store
from labkit.errors import LabError

PACKAGES = ("torch", "transformers", "tokenizers", "numpy")
"""Packages whose version can change a measurement."""
BUFFER_BYTES = 256 * 2**20
"""Larger than the caches of the machines this course meets."""
MATRIX = 1024
THREADS = 2
RECENT_S = 3600.0
"""For so long a measured speed is not measured again."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True)
class Machine:
    """What a reader needs in order to compare with another machine."""

    cpu: str
    cores: int
    """Cores that this process may use."""
    ram_bytes: int
    system: str
    architecture: str


@dataclass(frozen=True)
class Speed:
    """Ceilings of this machine, as the best of several tries.

    `read_bytes_per_s` is for reading memory in order, `flop_per_s` for
    FP32 arithmetic in a large matrix product; both with `threads` threads.
    """

    threads: int
    read_bytes_per_s: float
    flop_per_s: float


def identify() -> Machine:
    """This machine."""
    return Machine(
        cpu=cpu_name(),
        cores=usable_cores(),
        ram_bytes=psutil.virtual_memory().total,
        system=platform.system(),
        architecture=platform.machine(),
    )


def usable_cores() -> int:
    """Cores that this process may run on."""
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        cores = len(process.cpu_affinity())
    else:
        cores = psutil.cpu_count() or 1
    return min(cores, container_cores(CGROUP_LIMIT) or cores)


def container_cores(path: Path) -> int | None:
    """Cores that a Linux container may use, rounded up; None for no limit.

    `path` is cgroup v2's cpu.max: microseconds in each period, or "max".
    """
    try:
        quota, period = path.read_text(encoding="utf-8").split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def default_threads() -> int:
    """Threads that the course computes with: two, or the only core."""
    return min(THREADS, usable_cores())


def wait_briefly(environment: MutableMapping[str, str]) -> None:
    """Let PyTorch's threads on Linux spin only briefly while they wait.

    Call it before torch is loaded. By default a thread that waits for the
    other keeps its core busy for milliseconds, which starves that other as
    soon as another program wants a core. On two AMD EPYC cores, beside
    programs that kept one of them busy, an answer of 16 tokens took 1.2 to
    1.8 s with this and 3 to 6 s without, in separate sessions whose load was
    not the same; on the idle machine 0.98 s and 0.93 s (medians of 7).
    """
    environment.setdefault("GOMP_SPINCOUNT", "1000")


def cpu_name() -> str:
    """The processor's name as its system gives it."""
    readers = {
        "Linux": _cpu_name_linux,
        "Darwin": _cpu_name_macos,
        "Windows": _cpu_name_windows,
    }
    reader = readers.get(platform.system(), str)
    try:
        name = reader()
    except (OSError, subprocess.SubprocessError):
        name = ""
    name = name or platform.processor() or platform.machine()
    return " ".join(name.split())


def _cpu_name_linux() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else ""


def _cpu_name_macos() -> str:
    return subprocess.run(
        ["sysctl", "-n", "machdep.cpu.brand_string"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _cpu_name_windows() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    key = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
        return str(winreg.QueryValueEx(opened, "ProcessorNameString")[0])


def software() -> dict[str, str]:
    """Versions of Python and of the packages that can change a time."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "missing"
    return versions


def slug(machine: Machine, versions: Mapping[str, str]) -> str:
    """Name of the folder for baselines of this machine and software."""
    cpu = re.sub(r"[^a-z0-9]+", "-", machine.cpu.lower()).strip("-")
    text = json.dumps(sorted(versions.items()))
    short = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{cpu}-{machine.cores}-cores-{short}"


def rss_bytes() -> int:
    """Memory of this process that is resident now."""
    return int(psutil.Process().memory_info().rss)


def peak_rss_bytes() -> int:
    """Most memory that was ever resident in this process."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "linux":
        # getrusage would start at the peak of the process that started this
        # one: Linux hands it over to a new program.
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        if found := re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE):
            return int(found[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure_speed(
    threads: int,
    tries: int = 60,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Speed:
    """Measure both ceilings in this process, in about two seconds.

    Takes 256 MiB while it runs; `speed` does it in a process of its own.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        buffer = torch.ones(BUFFER_BYTES // 4)
        matrix = torch.ones(MATRIX, MATRIX)
        read = _best_seconds(buffer.sum, tries, clock)
        product = _best_seconds(lambda: matrix @ matrix, tries, clock)
    finally:
        torch.set_num_threads(before)
    return Speed(threads, BUFFER_BYTES / read, 2 * MATRIX**3 / product)


def _best_seconds(
    work: Callable[[], object], tries: int, clock: Callable[[], int]
) -> float:
    work()
    seconds = []
    for _ in range(tries):
        start = clock()
        work()
        seconds.append((clock() - start) / 1e9)
    return min(seconds)


def speed(threads: int, root: Path | None = None) -> Speed:
    """Both ceilings, from the cache or measured once and kept there."""
    return _kept_speed(threads, root) or refresh_speed(threads, root)


def recent_speed(
    threads: int,
    root: Path | None = None,
    now: Callable[[], float] = time.time,
) -> Speed:
    """Both ceilings, measured again if that was more than an hour ago.

    Lessons ask for them one after the other; the best of a few tries in a
    day is enough, and each takes some seconds.
    """
    kept = _kept_speed(threads, root)
    if kept is not None:
        age_s = now() - _speed_path(threads, root).stat().st_mtime
        if 0 <= age_s <= RECENT_S:
            return kept
    return refresh_speed(threads, root)


def refresh_speed(
    threads: int,
    root: Path | None = None,
    measure: Callable[[int], Speed] | None = None,
) -> Speed:
    """Measure again and keep the better of old and new.

    A ceiling is what was reached at best: a busy machine shows less.
    """
    found = (measure or _speed_in_a_process)(threads)
    kept = _kept_speed(threads, root)
    if kept is not None:
        found = Speed(
            threads,
            max(found.read_bytes_per_s, kept.read_bytes_per_s),
            max(found.flop_per_s, kept.flop_per_s),
        )
    path = _speed_path(threads, root)
    try:
        store.write_text(path, json.dumps(asdict(found), indent=2) + "\n")
    except OSError as error:
        raise store.explain(error, path.parent) from error
    return found


def _speed_path(threads: int, root: Path | None) -> Path:
    name = f"{slug(identify(), software())}-{threads}-threads.json"
    return (root or store.home()) / "speed" / name


def _kept_speed(threads: int, root: Path | None) -> Speed | None:
    try:
        text = _speed_path(threads, root).read_text(encoding="utf-8")
        kept = Speed(**json.loads(text))
        good = kept.read_bytes_per_s > 0 and kept.flop_per_s > 0
    except (OSError, ValueError, TypeError):
        return None
    return kept if good else None


def _speed_in_a_process(threads: int) -> Speed:
    """Measure beside this process, so that its memory stays as it was."""
    done = subprocess.run(
        [sys.executable, "-m", "labkit.machine", str(threads)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LabError(
            f"The speed of this machine could not be measured ({last}): "
            "run `python -m labkit doctor`."
        )
    return Speed(**json.loads(done.stdout))


if __name__ == "__main__":
    print(json.dumps(asdict(measure_speed(int(sys.argv[1])))))
