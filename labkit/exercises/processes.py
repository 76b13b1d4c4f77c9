"""Cells run in a process of their own, within limits.

A process per submission, started with this interpreter, in a temporary
folder. It talks over pipes: a pipe holds little, so a flood of output stops
the one who writes it, and no port is opened. A cell that runs too long,
prints too much or ends the process is set aside, and the rest runs again in
a fresh process without it.

This keeps honest mistakes and simple tricks from changing a grade or
stopping the run. It is no sandbox: the code can read and write files as the
person who grades, and where `in_force` says so it can use the network.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

from labkit.errors import LabError
from labkit.exercises import families
from labkit.progress import HEADLESS

Kind = Literal["given", "own", "test"]
Excess = Literal["output", "memory", "processes", "files"]
End = Literal["ok", "error", "time", "died", "not run", "given up"] | Excess

_CONFINEMENT = Path(__file__).with_name("confinement.py")
_START_S = 60.0
_LOOK_EVERY_S = 0.2
_LINE_BYTES = 65_536
_TAIL_BYTES = 2_000


@dataclass(frozen=True)
class RunLimits:
    """What one submission may use.

    Seconds for a cell and in all; bytes of output for a cell; bytes of
    memory and number of processes, those it started included; bytes of one
    file and of all files in its temporary folder. `overruns` is how many
    tests of an exercise may run out of time before its others are given up;
    None lets all of them. `hidden` are folders that look empty to it where
    processes are set apart.
    """

    cell_s: float = 60.0
    total_s: float = 300.0
    output_bytes: int = 1_000_000
    memory_bytes: int = 1 << 30
    processes: int = 64
    file_bytes: int = 64 << 20
    files_bytes: int = 256 << 20
    overruns: int | None = None
    hidden: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Step:
    """A cell to run: given by the source, the learner's own, or a test.

    A test has the title of its exercise.
    """

    name: str
    kind: Kind
    source: str
    exercise: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a step ended; for an error its type, text and the place.

    `cell` and `line` name the learner's line that was running, if any, and
    `test_line` the one of the test.
    """

    end: End
    error: str = ""
    message: str = ""
    cell: str | None = None
    line: int | None = None
    test_line: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether the step ended its process, or was ended with it."""
        return self.end not in ("ok", "error", "not run", "given up")


def in_force(limits: RunLimits) -> str:
    """What holds on this system, in a line; starts a process to see."""
    done = subprocess.run(
        [*_command(), _job(limits, probe=True)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        start_new_session=True,
        timeout=_START_S,
    )
    holds = done.stdout.split()
    apart = "apart from others" if "processes" in holds else "not set apart"
    return (
        f"Network: {'off' if 'network' in holds else 'on (see the notes)'}. "
        f"Processes: {limits.processes}, {apart}. "
        f"Memory: {limits.memory_bytes >> 20:,} MiB. "
        f"Files: {limits.files_bytes >> 20:,} MiB. "
        f"A cell: {limits.cell_s:g} s, {limits.output_bytes:,} bytes of "
        f"output. In all: {limits.total_s:g} s."
    )


def run_steps(
    steps: Sequence[Step],
    limits: RunLimits,
    files: Path | None = None,
    on_stop: Callable[[Step, Outcome], None] | None = None,
) -> list[Outcome]:
    """Run the steps in order; one outcome each.

    `files` is a folder whose content lies in the working folder. A step
    that has to be stopped does not keep the others from running: they are
    run again without it, and tests that are decided stay so. `on_stop` is
    told of each such step at once: somebody may be waiting.
    """
    outcomes: dict[int, Outcome] = {}
    stopped: set[int] = set()
    deadline = time.monotonic() + limits.total_s
    while time.monotonic() < deadline:
        chosen = {
            number: step
            for number, step in enumerate(steps)
            if number not in stopped
            and not (step.kind == "test" and number in outcomes)
        }
        ended = _run_once(chosen, limits, deadline, files)
        outcomes = ended | outcomes
        fresh = {n for n, outcome in ended.items() if outcome.stopped}
        if on_stop:
            for number in sorted(fresh):
                on_stop(steps[number], ended[number])
        stopped |= fresh
        outcomes |= _given_up(steps, outcomes, limits.overruns)
        undecided = chosen.keys() - outcomes.keys()
        if not any(steps[n].kind == "test" for n in undecided):
            break
    return [outcomes.get(n, Outcome("not run")) for n in range(len(steps))]


def _given_up(
    steps: Sequence[Step], outcomes: Mapping[int, Outcome], most: int | None
) -> dict[int, Outcome]:
    """Tests not worth waiting for: `most` of their exercise did not end."""
    overruns = Counter(
        steps[n].exercise
        for n, outcome in outcomes.items()
        if steps[n].kind == "test" and outcome.end == "time"
    )
    return {
        number: Outcome("given up")
        for number, step in enumerate(steps)
        if step.kind == "test"
        and number not in outcomes
        and most is not None
        and overruns[step.exercise] >= most
    }


def _run_once(
    steps: Mapping[int, Step],
    limits: RunLimits,
    deadline: float,
    files: Path | None,
) -> dict[int, Outcome]:
    """One process, up to the first step that had to be stopped."""
    outcomes: dict[int, Outcome] = {}
    with tempfile.TemporaryDirectory(
        prefix="labkit-", ignore_cleanup_errors=True
    ) as scratch:
        work = Path(scratch) / "work"
        if files is None:
            work.mkdir()
        else:
            shutil.copytree(files, work)
        child = _Child(list(steps.values()), work, limits)
        try:
            for place, number in enumerate(steps):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                seconds = min(limits.cell_s, left)
                outcomes[number] = child.run(place, seconds)
                if outcomes[number].stopped:
                    break
        finally:
            child.close()
    return outcomes


class _Child:
    """The runner process, the two pipes that it writes to, and a watch."""

    def __init__(
        self, steps: Sequence[Step], work: Path, limits: RunLimits
    ) -> None:
        self._limits = limits
        self._scratch = work.parent
        self._written = 0
        self._excess: Excess | None = None
        self._tail = b""
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [*_command(), _job(limits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=work,
            env=_environment(work.parent),
            start_new_session=True,
        )
        for target, arguments in (
            (self._read_replies, [self._process.stdout]),
            (self._read_output, [self._process.stderr]),
            (self._watch, []),
        ):
            threading.Thread(
                target=target, args=arguments, daemon=True
            ).start()
        try:
            self._begin(steps)
        except BaseException:  # Ctrl-C too must leave no process behind
            self.close()
            raise

    def _begin(self, steps: Sequence[Step]) -> None:
        """Hand over the job and wait until its tests are compiled."""
        job = json.dumps([asdict(step) for step in steps])
        self._send(job.encode())
        if self._wait(b"ready", _START_S) is None:
            raise LabError(
                "The process that runs exercises did not start "
                f"({self._last_line()}); run `python -m labkit doctor`."
            )

    def run(self, number: int, seconds: float) -> Outcome:
        """Let a step of the job run, at most so long."""
        self._written = 0
        token = secrets.token_hex(16).encode()
        self._send(b"%d %s" % (number, token))
        reply = self._wait(token, seconds)
        if reply is not None:
            # What a step leaves behind counts for it, not for the next.
            self._look()
        if self._excess:
            self.close()
            return Outcome(self._excess)
        if reply is None:
            alive = self._process.poll() is None
            self.close()
            return Outcome("time" if alive else "died")
        return _outcome(reply)

    def close(self) -> None:
        """End the process and every process that it started."""
        families.end(self._process)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _send(self, line: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None
        with suppress(OSError):  # it has ended; the reader tells
            stream.write(line + b"\n")
            stream.flush()

    def _wait(self, token: bytes, seconds: float) -> bytes | None:
        """The reply that carries the token; None if it does not come."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                return None
            if line is None:
                # The pipe is closed. Mostly the process is ending, but a
                # cell can also close the pipe and go on.
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(left)
                return None
            if line.startswith(token):
                return line[len(token) :].strip()
        return None

    def _read_replies(self, stream: IO[bytes]) -> None:
        while line := stream.readline(_LINE_BYTES):
            self._count(len(line))
            self._lines.put(line)
        self._lines.put(None)

    def _read_output(self, stream: IO[bytes]) -> None:
        while data := os.read(stream.fileno(), _LINE_BYTES):
            self._tail = data[-_TAIL_BYTES:]
            self._count(len(data))

    def _last_line(self) -> str:
        text = self._tail.decode("utf-8", "replace").strip()
        return text.rpartition("\n")[2] or "it said nothing"

    def _count(self, size: int) -> None:
        self._written += size
        if self._written > self._limits.output_bytes:
            self._stop("output")

    def _watch(self) -> None:
        """Look again and again, as long as the process lives."""
        while self._process.poll() is None:
            self._look()
            time.sleep(_LOOK_EVERY_S)

    def _look(self) -> None:
        """Stop the process where it uses more than it may."""
        limits = self._limits
        family = families.members(self._process.pid)
        memory = families.memory(family, limits.memory_bytes)
        if len(family) > limits.processes:
            self._stop("processes")
        elif memory > limits.memory_bytes:
            self._stop("memory")
        elif self._files() > limits.files_bytes:
            self._stop("files")

    def _files(self) -> int:
        return families.written(self._scratch, self._limits.files_bytes)

    def _stop(self, excess: Excess) -> None:
        self._excess = self._excess or excess
        families.end(self._process)


def _command() -> list[str]:
    # -P: a file beside the notebook must not hide a real module.
    return [sys.executable, "-P", str(_CONFINEMENT)]


def _job(limits: RunLimits, *, probe: bool = False) -> str:
    """The argument of `confinement.py`."""
    return json.dumps(
        {
            "parent": os.getpid(),
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "hidden": [str(folder.resolve()) for folder in limits.hidden],
            "probe": probe,
        }
    )


def _outcome(reply: bytes) -> Outcome:
    if reply == b"ok":
        return Outcome("ok")
    try:
        found: dict[str, Any] = json.loads(reply.removeprefix(b"error "))
        kind, message = str(found["type"]), str(found["message"])
        if kind == "MemoryError":
            # What it holds would be missing to the steps that follow.
            return Outcome("memory")
        cell = found["cell"] if isinstance(found["cell"], str) else None
        lines = (found["line"], found.get("test_line"))
        line, test_line = (n if type(n) is int else None for n in lines)
        return Outcome("error", kind, message, cell, line, test_line)
    except (ValueError, KeyError, TypeError):
        return Outcome("error", "Error", "what went wrong could not be told")


def _environment(scratch: Path) -> dict[str, str]:
    """No window for plots, no IPython start-up files, asserts that count."""
    inherited = dict(os.environ)
    inherited.pop("PYTHONOPTIMIZE", None)
    temporary = scratch / "temporary"
    temporary.mkdir()
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    return {
        **inherited,
        **places,
        "IPYTHONDIR": str(scratch / "ipython"),
        "MPLBACKEND": "Agg",
        "PYTHONIOENCODING": "utf-8",
        HEADLESS: "1",
    }
