"""What the child gives up before any of a learner's code runs.

`processes.py` starts this file as a script with one argument, a JSON object;
nobody imports it, and it needs the standard library and psutil only. It
limits what the process may use, cuts it off as far as the system lets it,
and goes on with `runner.py` in the same process. What holds afterwards:

- "network": on Linux, in a network namespace of its own. Nothing answers
  there but the process's own loopback.
- "processes": on Linux, in a process namespace of its own. Processes outside
  cannot be signalled, and are not seen but by code that undoes the mount of
  /proc; whatever was started inside ends with the runner, however it cut
  itself loose. Shared memory of System V is its own, too. Folders that the
  job names (solutions, what others handed in) look empty, but to code that
  undoes that mount.

Everywhere an audit hook refuses connections to other machines and signals to
processes that are not the learner's. It tells honest code at once and stops
the simplest tricks. Code in the same process can go round it.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import psutil

NETWORK = "network"
PROCESSES = "processes"

_RUNNER = str(Path(__file__).with_name("runner.py"))

# From <sched.h>, <sys/mount.h>, <sys/prctl.h> and <linux/sockios.h>.
_NEW_MOUNTS = 0x0002_0000
_NEW_IPC = 0x0800_0000
_NEW_USER = 0x1000_0000
_NEW_PIDS = 0x2000_0000
_NEW_NETWORK = 0x4000_0000
_NO_SUID_DEV_EXEC = 0x2 | 0x4 | 0x8
_PRIVATE_RECURSIVE = 0x4_0000 | 0x4000
_PARENT_DEATH_SIGNAL = 1
_SET_INTERFACE_FLAGS = 0x8914
_UP = 1

_APART = _NEW_NETWORK | _NEW_PIDS | _NEW_MOUNTS | _NEW_IPC
# The best first. In a user namespace of its own not even root has a way
# back. Some systems refuse one, containers often the new /proc.
_LEVELS = (
    (_APART | _NEW_USER, (NETWORK, PROCESSES)),
    (_APART, (NETWORK, PROCESSES)),
    (_NEW_NETWORK | _NEW_USER, (NETWORK,)),
    (_NEW_NETWORK, (NETWORK,)),
)


def main() -> None:
    """Confine this process, then say what holds or run the job."""
    job: dict[str, Any] = json.loads(sys.argv.pop())
    _limit(job["memory_bytes"], job["file_bytes"])
    holds = _enter_namespaces(job["hidden"])
    if job["probe"]:
        print(*holds)
        return
    sys.addaudithook(_refusals(os.getpid()))
    # In a namespace of its own the parent's number means nothing, and the
    # kernel ends this process with it.
    parent = 0 if PROCESSES in holds else job["parent"]
    sys.argv = [_RUNNER, str(parent)]
    runpy.run_path(_RUNNER, run_name="__main__")


def _limit(memory_bytes: int, file_bytes: int) -> None:
    """Limits that the kernel keeps, for each process; none on Windows."""
    if sys.platform == "win32":
        return
    import resource

    for kind, wanted in (
        (resource.RLIMIT_CORE, 0),
        # Not RLIMIT_AS: libraries reserve far more than they use.
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = wanted
        if hard != resource.RLIM_INFINITY:
            limit = min(wanted, hard)
        with suppress(ValueError, OSError):  # the parent watches as well
            resource.setrlimit(kind, (limit, limit))


def _enter_namespaces(hidden: Sequence[str]) -> tuple[str, ...]:
    """What holds in the process that returns; others wait for it here."""
    if sys.platform != "linux":
        return ()
    for flags, holds in _LEVELS:
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told)
            try:
                _enter(flags, hidden)
            except OSError:
                os._exit(1)
            os.write(tell, b"1")
            os.close(tell)
            return holds
        _end_with_parent()
        os.close(tell)
        entered = os.read(told, 1)
        os.close(told)
        if entered:
            _wait_for(child)
        os.waitpid(child, 0)
    return ()


def _enter(flags: int, hidden: Sequence[str]) -> None:
    """Go into new namespaces; OSError where that cannot be or is no use."""
    readable = _readable()
    user, group = os.getuid(), os.getgid()
    _call("unshare", flags)
    if flags & _NEW_USER:
        own = Path("/proc/self")
        own.joinpath("setgroups").write_text("deny", encoding="utf-8")
        own.joinpath("uid_map").write_text(f"{user} {user} 1", "utf-8")
        own.joinpath("gid_map").write_text(f"{group} {group} 1", "utf-8")
    _end_with_parent()
    _start_loopback()
    if flags & _NEW_PIDS:
        _enter_processes(hidden)
    if _readable() != readable:  # root has lost a right that it needs
        raise PermissionError


def _enter_processes(hidden: Sequence[str]) -> None:
    """Go on as second process of the new namespace.

    The first cannot be ended from within, and with it ends all the rest.
    `hidden` folders look empty from then on.
    """
    first = os.fork()
    if first:
        _wait_for(first)
    _end_with_parent()
    _call("mount", b"none", b"/", None, _PRIVATE_RECURSIVE, None)
    _call("mount", b"proc", b"/proc", b"proc", _NO_SUID_DEV_EXEC, None)
    for folder in hidden:
        with suppress(OSError):  # one that is none hides nothing
            _call("mount", b"none", os.fsencode(folder), b"tmpfs", 1, None)
    second = os.fork()
    if second:
        _wait_for(second)
    _end_with_parent()


def _wait_for(child: int) -> NoReturn:
    """Wait for a child and for orphans meanwhile; end as the child did."""
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _end_with_parent() -> None:
    _call("prctl", _PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def _start_loopback() -> None:
    """So that a server and its client can talk within the process."""
    if sys.platform == "linux":
        import fcntl
        import socket

        request = struct.pack("16sH22x", b"lo", _UP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            fcntl.ioctl(probe, _SET_INTERFACE_FLAGS, request)


def _readable() -> list[str]:
    """The places of modules that this process can read."""
    places = (*sys.path, _RUNNER, str(Path.cwd()))
    return [place for place in places if os.access(place, os.R_OK)]


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library; OSError where it fails."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    # Flags are unsigned long in some of them; None is a null pointer.
    passed = [ctypes.c_ulong(a) if type(a) is int else a for a in arguments]
    if function(*passed) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _refusals(own: int) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook: what honest code needs not is a PermissionError."""

    def elsewhere(address: object) -> None:
        host = address[0] if isinstance(address, tuple) else address
        if isinstance(host, bytes):
            host = host.decode("utf-8", "replace")
        if not isinstance(host, str) or _is_here(host):
            return
        raise PermissionError("exercises run without a network")

    def signalled(pid: int) -> None:
        if abs(pid) != own and not _is_ours(pid, own):
            raise PermissionError("this process is not yours")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            if isinstance(arguments[1], tuple):  # else no internet address
                elsewhere(arguments[1])
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            elsewhere(arguments[0])
        elif event in ("os.kill", "os.killpg"):
            signalled(arguments[0])

    return hook


def _is_here(host: str) -> bool:
    return host in ("", "localhost", "::1") or host.startswith("127.")


def _is_ours(pid: int, own: int) -> bool:
    """Whether a process descends from the learner's."""
    with suppress(psutil.Error, ValueError, OverflowError):
        return any(p.pid == own for p in psutil.Process(pid).parents())
    return False


if __name__ == "__main__":
    main()
