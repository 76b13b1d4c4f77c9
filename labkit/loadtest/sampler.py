"""Watches the server's memory, the machine's load and the client itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

import psutil

from labkit.loadtest.recorder import Recorder

TICK_S = 0.01
"""How often the client asks whether it was held up."""
SAMPLE_S = 0.25
"""How often a line is written; memory between two lines is not seen."""


class Sampler:
    """Writes a line of rss.jsonl now and then until the block ends.

    `pid` is the server's process, None where it is not known. What the
    client lags is how much later than asked this thread woke up, at most,
    since the line before: it waits for the same interpreter and the same
    cores as the threads that stamp arrivals.
    """

    def __init__(
        self,
        recorder: Recorder,
        configuration: str,
        pid: int | None,
        clock: Callable[[], int] = time.perf_counter_ns,
        sample_s: float = SAMPLE_S,
    ) -> None:
        self._recorder = recorder
        self._configuration = configuration
        self._clock = clock
        self._sample_ns = round(sample_s * 1e9)
        self._process = _process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="labkit-sampler", daemon=True
        )

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due = self._clock()
        lag = 0
        self._write(due, 0)
        ended = False
        while not ended:
            asleep = self._clock()
            ended = self._stop.wait(TICK_S)
            now = self._clock()
            if not ended:
                lag = max(lag, now - asleep - round(TICK_S * 1e9))
            if ended or now - due >= self._sample_ns:
                self._write(now, lag)
                due, lag = now, 0

    def _write(self, now: int, lag: int) -> None:
        self._recorder.sample(
            self._configuration,
            time_ns=now,
            rss_bytes=_rss_bytes(self._process),
            load_average=load_average(),
            lag_ns=max(0, lag),
        )


def load_average() -> float | None:
    """Programs that wanted a core in the last minute, on average."""
    try:
        return float(psutil.getloadavg()[0])
    except OSError:
        return None


def _process(pid: int | None) -> psutil.Process | None:
    try:
        return None if pid is None else psutil.Process(pid)
    except (psutil.Error, ValueError, OverflowError):
        return None


def exists(pid: int) -> bool:
    """Whether there is such a process."""
    return _process(pid) is not None


def _rss_bytes(process: psutil.Process | None) -> int | None:
    """Resident memory of the server; None once it has ended."""
    try:
        return None if process is None else int(process.memory_info().rss)
    except psutil.Error:
        return None
