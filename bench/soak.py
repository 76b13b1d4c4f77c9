"""Does the server stand up to many clients, of which some behave badly?

    python bench/soak.py            # run, print, keep the result
    python bench/soak.py --show     # the kept result as Markdown

2,000 requests go to the real stack, around a random model of two layers, in a
process of its own. Every so many requests the clients pause, and the server
is looked at while it has nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import keeping
import soak_clients
import soak_report
from soak_clients import ANSWERED, LEFT, PATIENT, REFUSED, WRONG, Outcome, Plan
from soak_report import Counted, Report, Sample, Seen

from labkit import documents, machine, results
from labkit.errors import LabError

HERE = Path(__file__).resolve().parent
FILE = "soak.json"
SETTLE_S = 0.2
IDLE_S = 30.0
"""How long the server may take to finish what it was given."""


@dataclass(frozen=True)
class Load:
    """How much is asked of the server.

    More clients at once than `max_waiting` + 1 find the queue full.
    """

    requests: int = 2000
    clients: int = 12
    max_waiting: int = 8
    between: int = 250
    """Requests between two looks at the server."""
    seed: int = 7


class Server:
    """The server's process, for as long as the block."""

    def __init__(self, max_waiting: int) -> None:
        script = str(HERE / "soak_server.py")
        self._process = subprocess.Popen(
            [sys.executable, script, str(max_waiting)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.url = ""

    def __enter__(self) -> Server:
        self.url = self._read()["url"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._process.communicate(timeout=IDLE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def look(self) -> dict[str, Any]:
        """How it stands now."""
        print(file=self._process.stdin, flush=True)
        return self._read()

    def when_idle(self) -> dict[str, Any]:
        """How it stands once it has nothing to do, or after IDLE_S.

        The last clients' connections are closed a moment after they are.
        """
        deadline = time.monotonic() + IDLE_S
        files, found = -1, self.look()
        while found["open"] or found["files"] != files:
            if time.monotonic() > deadline:
                break
            time.sleep(SETTLE_S)
            files, found = found["files"], self.look()
        return found

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LabError("The server ended; its last words are above.")
        return documents.parse(line)


def follow(url: str, plans: Sequence[Plan], clients: int) -> list[Outcome]:
    """What came of the plans, shared out among clients at once."""
    left: SimpleQueue[Plan] = SimpleQueue()
    for plan in plans:
        left.put(plan)

    def work(_: int) -> list[Outcome]:
        client, made = soak_clients.Client(url), []
        try:
            while True:
                made.append(client.act(left.get_nowait()))
        except Empty:
            return made
        finally:
            client.close()

    with ThreadPoolExecutor(clients) as pool:
        return [one for made in pool.map(work, range(clients)) for one in made]


def soak(load: Load) -> Report:
    """Run it all."""
    started = results.timestamp(datetime.now(UTC))
    begin = time.perf_counter()
    plans = soak_clients.plans(load.requests, load.seed)
    outcomes: list[Outcome] = []
    samples = []
    with Server(load.max_waiting) as server:
        for first in range(0, len(plans), load.between):
            some = plans[first : first + load.between]
            outcomes += follow(server.url, some, load.clients)
            samples.append(sample(len(outcomes), server.when_idle()))
        # Before one more request, for that one is in no plan.
        counted = count(server.look(), server.url)
        (after,) = follow(server.url, [Plan(PATIENT, "/stream", "a", 3)], 1)
        seconds = time.perf_counter() - begin
        last = server.when_idle()
    return Report(
        started_utc=started,
        machine=machine.identify(),
        software=machine.software(),
        requests=load.requests,
        clients=load.clients,
        max_waiting=load.max_waiting,
        seed=load.seed,
        seconds=seconds,
        seen=see(outcomes),
        counted=replace(
            counted, running=last["running"], waiting=last["waiting"]
        ),
        served_after=after.result == ANSWERED,
        samples=tuple(samples),
    )


def sample(requests: int, found: Mapping[str, Any]) -> Sample:
    """What does not count requests, of a look at the server."""
    names = ("rss_bytes", "threads", "files")
    return Sample(requests, *(found[name] for name in names))


def see(outcomes: Sequence[Outcome]) -> Seen:
    """The outcomes in numbers."""
    results_of = Counter(outcome.result for outcome in outcomes)
    wrong = [
        f"{outcome.plan.behaviour} {outcome.plan.form}: {outcome.problem}"
        for outcome in outcomes
        if outcome.result == WRONG
    ]
    return Seen(
        behaviours=dict(Counter(one.plan.behaviour for one in outcomes)),
        answered=results_of[ANSWERED],
        refused=results_of[REFUSED],
        left=results_of[LEFT],
        full=sum(outcome.full for outcome in outcomes),
        wrong=(*wrong, *soak_clients.disagreements(outcomes)),
    )


def count(found: Mapping[str, Any], url: str) -> Counted:
    """What the observer counted, and what /metrics tells."""
    shown = metrics(url)
    return Counted(
        queued=found["queued"],
        ended=found["ended"],
        faults=tuple(found["faults"]),
        running=found["running"],
        waiting=found["waiting"],
        success=shown["success"],
        failure=shown["failure"],
        refused=shown["refused"],
    )


def metrics(url: str) -> dict[str, dict[str, int]]:
    """Counts of requests by how they ended, and by the only label."""
    from prometheus_client.parser import text_string_to_metric_families

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    prefix, suffix = "labkit:request_", "_total"
    return {
        kind: {
            next(iter(one.labels.values())): int(one.value)
            for family in text_string_to_metric_families(text)
            for one in family.samples
            if one.name == f"{prefix}{kind}{suffix}"
        }
        for kind in ("success", "failure", "refused")
    }


def main() -> None:
    """Run, or show what was kept; status 1 when something does not hold."""
    load = Load()
    report = keeping.run_or_show(
        __doc__, FILE, soak_report, lambda: soak(load)
    )
    keeping.require(soak_report, report)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(str(error))
