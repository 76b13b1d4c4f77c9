"""What this installation is, and what is wrong with it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

from labkit import __version__, checkpoints, course, machine, store
from labkit.errors import LabError

PYTHONS = ((3, 11), (3, 14))
"""First version that works, first that was not tried."""
LESSON_BYTES = int(1.5 * 2**30)
PORT = 8001


@dataclass(frozen=True)
class Finding:
    """One line of the report; `mend` is empty where nothing is wrong."""

    topic: str
    state: str
    mend: str = ""


def examine(root: Path | None = None) -> list[Finding]:
    """Everything that a bug report needs; `as_text` hides the home folder."""
    root = root or store.home()
    return [
        Finding("labkit", __version__),
        python_finding(sys.version_info[:2]),
        Finding("system", f"{platform.system()} {platform.release()}"),
        *machine_findings(),
        *package_findings(),
        speed_finding(root),
        course_finding(),
        cache_finding(root),
        *model_findings(root),
        port_finding(PORT),
    ]


def python_finding(version: tuple[int, ...]) -> Finding:
    """Whether this Python is one that the course runs on."""
    first, beyond = PYTHONS
    mend = ""
    if not first <= version < beyond:
        mend = "install Python 3.11, 3.12 or 3.13 and set up again with it"
    return Finding("python", platform.python_version(), mend)


def machine_findings() -> Iterator[Finding]:
    """Processor, cores, and memory that is free."""
    here = machine.identify()
    yield Finding("processor", f"{here.cpu}, {here.architecture}")
    yield Finding("cores", str(here.cores))
    free = psutil.virtual_memory().available
    state = f"{free / 2**30:.1f} of {here.ram_bytes / 2**30:.1f} GiB free"
    mend = "" if free > LESSON_BYTES else "close other programs"
    yield Finding("memory", state, mend)
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        yield Finding("OMP_NUM_THREADS", threads)


def package_findings() -> Iterator[Finding]:
    """Every package that labkit asks for, and whether it is the right one."""
    from packaging.requirements import Requirement

    try:
        wanted = metadata.requires("labkit") or []
    except metadata.PackageNotFoundError:
        yield Finding("packages", "labkit is not installed", "run `make lab`")
        return
    for line in wanted:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        yield package_finding(requirement.name, requirement)


def package_finding(name: str, requirement: object) -> Finding:
    """One package: its version against what is asked for."""
    from packaging.requirements import Requirement

    assert isinstance(requirement, Requirement)
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "missing", "run `make lab` again")
    right = requirement.specifier.contains(version, prereleases=True)
    mend = "" if right else f"needs {requirement.specifier}; run `make lab`"
    return Finding(name, version, mend)


def speed_finding(root: Path) -> Finding:
    """Both ceilings of the machine, measured now."""
    threads = machine.default_threads()
    try:
        found = machine.refresh_speed(threads, root)
    except LabError as error:
        return Finding("speed", "not measured", str(error))
    read, flop = found.read_bytes_per_s / 1e9, found.flop_per_s / 1e9
    state = f"{read:.1f} GB/s read, {flop:.0f} GFLOP/s, {threads} threads"
    return Finding("speed", state)


def course_finding() -> Finding:
    """Whether the notebooks are found from here."""
    try:
        where = course.folder()
    except LabError as error:
        return Finding("notebooks", "not found", str(error))
    return Finding("notebooks", str(where))


def cache_finding(root: Path) -> Finding:
    """The cache folder: where, how much room, and whether it takes files."""
    probe = root / "doctor.probe"
    try:
        store.write_text(probe, "")
        probe.unlink()
        free = shutil.disk_usage(root).free
    except OSError as error:
        return Finding("cache", str(root), str(store.explain(error, root)))
    return Finding("cache", f"{root}, {free / 2**30:.1f} GiB free")


def model_findings(root: Path) -> Iterator[Finding]:
    """The state of every model that the course knows."""
    for checkpoint in checkpoints.CHECKPOINTS.values():
        wrong = checkpoints.problems(checkpoint, root)
        needed = checkpoint.name == checkpoints.DEFAULT
        there = checkpoint.folder(root).exists()
        command = f"run `python -m labkit fetch {checkpoint.name}`"
        state = "; ".join(wrong) or "ready, all hashes right"
        mend = command if wrong and (needed or there) else ""
        yield Finding(f"model {checkpoint.name}", state, mend)


def port_finding(port: int) -> Finding:
    """Whether the server's usual port is free."""
    with socket.socket() as probe:
        busy = probe.connect_ex(("127.0.0.1", port)) == 0
    state = "in use: `serve` needs --port with another" if busy else "free"
    return Finding(f"port {port}", state)


def as_text(findings: list[Finding]) -> str:
    """The report, one finding a line, what is wrong at the end.

    The home folder, which often has a person's name, is written as ~.
    """
    width = max(len(finding.topic) for finding in findings)
    lines = [f"{f.topic:<{width}}  {f.state}" for f in findings]
    wrong = [f"- {f.topic}: {f.mend}" for f in findings if f.mend]
    lines.append("")
    lines += ["To mend:", *wrong] if wrong else ["Nothing is wrong."]
    return course.without_home("\n".join(lines))
