"""A server in a process of its own, for a notebook that talks to it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from types import TracebackType
from urllib.error import URLError

from labkit.errors import LabError

FIRST_ANSWER_S = 120.0
"""Loading takes seconds; a cold disk may take a minute."""


class ServerProcess:
    """`python -m labkit serve` on a free port, until the block ends.

    The process ends with the `with` block or with this process, however
    that ends: it watches its standard input, which closes then.
    `ready_seconds` is the time from its start until /health said ok.
    """

    def __init__(
        self, clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._clock = clock
        self._process: subprocess.Popen[str] | None = None
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
        command = [sys.executable, "-m", "labkit", "serve", "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--until-input-closes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        try:
            self.url = self._address()
            self._wait_until_ready()
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
        if process.stdout is not None:
            process.stdout.close()

    def _address(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word = next((w for w in line.split() if "://" in w), None)
            if word is not None:
                return word
        raise LabError(
            "The server ended before it listened: run "
            "`python -m labkit serve` in a terminal to see why."
        )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + FIRST_ANSWER_S
        # Loopback never goes through a proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < deadline:
            try:
                with opener.open(f"{self.url}/health", timeout=5) as reply:
                    json.load(reply)
                return
            except (URLError, OSError, ValueError):
                time.sleep(0.05)
        raise LabError(
            f"The server was not ready after {FIRST_ANSWER_S:.0f} s: close "
            "other programs and try again."
        )
