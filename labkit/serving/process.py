"""A server in a process of its own, for a notebook that talks to it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO
from urllib.error import HTTPError

from labkit.errors import LabError
from labkit.serving.access import KEY_VARIABLE

FIRST_ANSWER_S = 120.0
"""Loading takes seconds; a cold disk may take a minute."""
COMMAND = (
    *(sys.executable, "-m", "labkit", "serve"),
    *("--port", "0", "--until-input-closes"),
)


class ServerProcess:
    """`python -m labkit serve` on a free port, until the block ends.

    The process ends with the `with` block or with this process, however
    that ends: it watches its standard input, which closes then.
    `ready_seconds` is the time from its start until /health said ok, which
    it must within `patience_s` seconds. LabError when it does not, or ends
    before, or cannot load its model. `options` are further words of the
    command, such as ("--fast", "--threads", "1").
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.perf_counter_ns,
        command: Sequence[str] = COMMAND,
        patience_s: float = FIRST_ANSWER_S,
        *,
        options: Sequence[str] = (),
    ) -> None:
        self._clock = clock
        self._command = (*command, *options)
        self._patience_s = patience_s
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.url = ""
        self.ready_seconds = 0.0

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._process is None:
            raise LabError("The server is not running; start it first.")
        return self._process.pid

    def __enter__(self) -> ServerProcess:
        start = self._clock()
        deadline = time.monotonic() + self._patience_s
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=_without_key(os.environ),
        )
        try:
            self.url = self._address(self._process, deadline)
            self._wait_until_ready(self._process, deadline)
        except BaseException:
            self.stop()
            raise
        self.ready_seconds = (self._clock() - start) / 1e9
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process; it may take a few seconds to finish."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join()  # the end of the process ends its output
        if process.stdout is not None:
            process.stdout.close()

    def _address(self, process: subprocess.Popen[str], deadline: float) -> str:
        """The address that the process prints once it listens."""
        assert process.stdout is not None
        found: queue.Queue[str | None] = queue.Queue()
        # Only a thread can stop waiting for a pipe, on every system.
        self._reader = threading.Thread(
            target=_read_address, args=(process.stdout, found), daemon=True
        )
        self._reader.start()
        try:
            address = found.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise self._not_ready() from None
        if address is None:
            raise _ended()
        return address

    def _wait_until_ready(
        self, process: subprocess.Popen[str], deadline: float
    ) -> None:
        # Loopback never goes through a proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise _ended()
            try:
                with opener.open(f"{self.url}/health", timeout=5) as reply:
                    json.load(reply)
                return
            except HTTPError as error:
                problem = _load_problem(error)
                if problem is not None:
                    raise LabError(problem) from None
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        raise self._not_ready()

    def _not_ready(self) -> LabError:
        return LabError(
            f"The server was not ready after {self._patience_s:.0f} s: close "
            "other programs and try again."
        )


def _without_key(environment: Mapping[str, str]) -> dict[str, str]:
    """Whoever started this server is its only user, and sends no key."""
    return {k: v for k, v in environment.items() if k != KEY_VARIABLE}


def _read_address(output: IO[str], found: queue.Queue[str | None]) -> None:
    """Put the first address that is printed, or None at the end."""
    words = (word for line in output for word in line.split())
    found.put(next((word for word in words if "://" in word), None))


def _load_problem(refusal: HTTPError) -> str | None:
    """The server's sentence when it cannot load its model, ever."""
    try:
        with refusal:
            error = json.load(refusal)["error"]
        return (
            str(error["message"]) if error["code"] == "load_failed" else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ended() -> LabError:
    return LabError(
        "The server ended before it was ready: run "
        "`python -m labkit serve` in a terminal to see why."
    )
