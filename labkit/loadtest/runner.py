"""Measures what is missing in a folder of evidence.

A run that is killed or interrupted keeps what it has, and the next run of
the same folder goes on with what is missing.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from labkit.errors import LabError
from labkit.loadtest import evidence
from labkit.loadtest.loops import Load, Serving
from labkit.loadtest.plan import Configuration, Planned
from labkit.loadtest.recorder import Recorder
from labkit.loadtest.sampler import Sampler
from labkit.progress import Progress, bar

Connect = Callable[[Configuration], AbstractContextManager[Serving]]
Watched = Callable[[Configuration, Serving], AbstractContextManager[None]]


def run(
    folder: Path,
    connect: Connect,
    *,
    make_bar: Callable[[int, str], Progress] = bar,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> bool:
    """Measure what is missing in a folder; whether nothing is missing now.

    All of it is one new segment. After Ctrl-C no request is sent and those
    in flight are waited for; a second Ctrl-C gives them up.
    """
    before = evidence.load(folder)
    if before.ended:
        return True
    progress = make_bar(len(before.missing()), "Load test")
    stop = threading.Event()
    reason = "interrupted"
    with Recorder(folder, len(before.ends) + 1) as recorder:
        recorder.start(clock())
        try:
            with _ctrl_c(stop):
                load = Load(recorder, progress, stop, clock)
                watched = partial(_watched, recorder, clock)
                _measure(before, connect, load, watched)
            reason = "interrupted" if stop.is_set() else "complete"
        except (KeyboardInterrupt, LabError):
            # A server in the same terminal was stopped by Ctrl-C as well.
            if not stop.is_set() or load.error is not None:
                raise
        finally:
            stop.set()
            recorder.end(clock(), reason)
            progress.close("")
    return reason == "complete"


def _measure(
    before: evidence.Evidence,
    connect: Connect,
    load: Load[Planned],
    watched: Watched,
) -> None:
    """What is missing, configuration by configuration, until a stop."""
    for asked in before.plan.configurations:
        warmups = before.plan.of(asked.name, "warmup")
        missing = before.missing(asked.name)
        if not missing or load.stopped:
            continue
        with connect(asked) as serving, watched(asked, serving):
            client = serving.client
            load.closed(client, warmups, clients=1)
            if asked.clients is not None:
                load.closed(client, missing, asked.clients)
            else:
                load.open(client, missing, asked.most_in_flight)


@contextmanager
def _watched(
    recorder: Recorder,
    clock: Callable[[], int],
    asked: Configuration,
    serving: Serving,
) -> Iterator[None]:
    """Write down when a configuration starts and ends, and sample between.

    One that is given up has no end.
    """
    name = asked.name
    recorder.mark(
        "configuration_start",
        clock(),
        configuration=name,
        threads=serving.threads,
    )
    with Sampler(recorder, name, serving.pid, clock):
        yield
    recorder.mark("configuration_end", clock(), configuration=name)


@contextmanager
def _ctrl_c(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C asks to stop; the next is a KeyboardInterrupt.

    An exception in the middle of anything could lose track of a thread.
    Signals reach the main thread alone.
    """

    def ask(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
