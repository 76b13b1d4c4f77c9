"""The folder of a load test: what is in it, how it begins, ends, is read.

docs/evidence.md describes the files line by line. `verify` checks a folder
with code of its own, and nothing of it is used here.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from labkit import documents, store
from labkit.errors import LabError
from labkit.loadtest.plan import Plan, Planned
from labkit.loadtest.records import Arrival, Record

ENVIRONMENT = "environment.json"
REQUESTS = "requests.jsonl"
EVENTS = "events.jsonl"
RSS = "rss.jsonl"
REPORT = "report.json"
MANIFEST = "manifest.json"
LINES = (REQUESTS, EVENTS, RSS)
SEALED = (ENVIRONMENT, *LINES, REPORT)
SCHEMA = "labkit.evidence"
VERSION = 1
CHAIN_DIGITS = 16


@dataclass(frozen=True)
class Run:
    """Where a request was measured."""

    segment: int
    record: Record


@dataclass(frozen=True)
class Evidence:
    """What a folder holds. `ends` has how each segment ended, None where
    it was killed; `samples` are the lines of rss.jsonl."""

    plan: Plan
    environment: Mapping[str, Any]
    ends: tuple[str | None, ...]
    runs: tuple[Run, ...]
    samples: tuple[Mapping[str, Any], ...]
    complete: bool

    @property
    def finished(self) -> frozenset[str]:
        """The requests that have a line of their own."""
        return frozenset(run.record.request for run in self.runs)

    @property
    def ended(self) -> bool:
        """Whether the last segment went through to its end."""
        return self.ends[-1:] == ("complete",)

    def missing(self, configuration: str | None = None) -> list[Planned]:
        """Requests that are still to be measured, in their order."""
        finished = self.finished
        return [
            each
            for each in self.plan.requests
            if each.phase == "measured"
            and each.request not in finished
            and configuration in (None, each.configuration)
        ]

    def segments(
        self, configuration: str, phase: str = "measured"
    ) -> list[list[Record]]:
        """The records of a configuration by segment, as they were sent.

        Those that a closed loop released at once are marked as start-up.
        """
        names = {
            each.request
            for each in self.plan.requests
            if (each.configuration, each.phase) == (configuration, phase)
        }
        burst = next(
            each.burst
            for each in self.plan.configurations
            if each.name == configuration
        )
        mine = [run for run in self.runs if run.record.request in names]
        mine.sort(key=lambda run: (run.segment, run.record.sent_ns))
        return [
            [
                replace(run.record, startup=place < burst)
                for place, run in enumerate(runs)
            ]
            for _, runs in groupby(mine, lambda run: run.segment)
        ]


def genesis(environment: bytes, name: str) -> str:
    """What the first line of a file is linked to."""
    start = environment + name.encode()
    return hashlib.sha256(start).hexdigest()[:CHAIN_DIGITS]


def linked(chain: str, fields: Mapping[str, Any]) -> tuple[str, bytes]:
    """A line that is linked to the one before by `chain`; its own chain."""
    body = json.dumps(fields, separators=(",", ":"), allow_nan=False)[:-1]
    link = hashlib.sha256((chain + body).encode()).hexdigest()[:CHAIN_DIGITS]
    return link, f'{body},"chain":"{link}"}}\n'.encode()


def create(folder: Path, plan: Plan, about: Mapping[str, Any]) -> None:
    """A new folder that holds the plan and no line yet.

    `about` has machine, software, model and target. It is there whole or
    not at all; LabError when something is in its place.
    """
    document = {"schema": SCHEMA, "version": VERSION, **about, **asdict(plan)}
    # One line: the ids of prompts, one on each line, would be many pages.
    text = json.dumps(document, allow_nan=False) + "\n"
    try:
        if folder.exists():
            raise LabError(
                f"{folder} exists already: choose another folder, or add"
                " --resume to finish what it holds."
            )
        staged = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        store.write_text(staged / ENVIRONMENT, text)
        for name in LINES:
            (staged / name).touch()
        write_manifest(staged, complete=False)
        staged.rename(folder)
    except OSError as error:
        raise explain(error, folder) from error


def seal(folder: Path, report: Mapping[str, Any]) -> None:
    """Add the report and make the folder complete, in one last step."""
    try:
        store.write_text(folder / REPORT, documents.to_text(report))
        write_manifest(folder, complete=True)
    except OSError as error:
        raise explain(error, folder) from error


def write_manifest(folder: Path, *, complete: bool) -> None:
    """The hashes: of the plan alone while the run goes on, then of all."""
    names = SEALED if complete else (ENVIRONMENT,)
    document = {
        "schema": "labkit.manifest",
        "version": VERSION,
        "state": "complete" if complete else "partial",
        "sha256": {name: _sha256(folder / name) for name in names},
    }
    store.write_text(folder / MANIFEST, documents.to_text(document))


def load(folder: Path) -> Evidence:
    """What a folder holds; LabError for one that does not verify."""
    from labkit.loadtest import verify

    status, sentences = verify.examine(folder)
    if status not in (verify.COMPLETE, verify.PARTIAL):
        raise LabError(f"{folder} is not used: {sentences[0]}")
    try:
        return _read(folder, complete=status == verify.COMPLETE)
    except (LookupError, TypeError, ValueError) as error:
        # What the verifier has no use for, it does not look at.
        raise LabError(
            f"{folder} is not used: its evidence has another form ({error!r})."
        ) from error


def _read(folder: Path, *, complete: bool) -> Evidence:
    environment = _object((folder / ENVIRONMENT).read_bytes())
    rows, events, samples = (_lines(folder / name) for name in LINES)
    ends: list[str | None] = []
    arrivals: dict[tuple[int, str], list[Arrival]] = {}
    for event in events:
        if event["kind"] == "segment_start":
            ends.append(None)
        elif event["kind"] == "segment_end":
            ends[-1] = event["reason"]
        elif "ids" in event:
            key = event["segment"], event["request"]
            arrivals.setdefault(key, []).append(_arrival(event))
    return Evidence(
        _plan(environment),
        environment,
        tuple(ends),
        tuple(_run(row, arrivals) for row in rows),
        tuple(samples),
        complete,
    )


def explain(error: OSError, folder: Path) -> LabError:
    """The sentence for a disk that refused."""
    return LabError(
        f"The evidence in {folder} cannot be written"
        f" ({error.strerror or error}): free space or choose a folder of"
        " yours; what was recorded so far is kept, and --resume goes on."
    )


def _plan(environment: Mapping[str, Any]) -> Plan:
    names = Plan.__dataclass_fields__
    return documents.decode(Plan, {name: environment[name] for name in names})


def _run(
    row: Mapping[str, Any], arrivals: Mapping[tuple[int, str], list[Arrival]]
) -> Run:
    known = {*Record.__dataclass_fields__} & {*row} - {"arrivals"}
    seen = tuple(arrivals.get((row["segment"], row["request"]), ()))
    fields = {name: row[name] for name in known}
    return Run(row["segment"], Record(**fields, arrivals=seen))


def _arrival(event: Mapping[str, Any]) -> Arrival:
    names = {*Arrival.__dataclass_fields__} - {"ids"}
    fields = {name: event[name] for name in names}
    return Arrival(**fields, ids=tuple(event["ids"]))


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file."""
    return [_object(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _object(data: bytes) -> dict[str, Any]:
    return documents.parse(data.decode("utf-8"))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
