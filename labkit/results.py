"""The record of one run on disk: raw observations and what they say.

A result is one JSON document, `results/<NN>/<time>/result.json`. Whatever
is computed from observations is computed again when it is loaded, so that
a result whose figures do not follow from its samples is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit import documents, records, stats, store
from labkit.errors import LabError
from labkit.machine import Machine
from labkit.observations import Observation
from labkit.records import Record
from labkit.timing import Schedule

SCHEMA = "labkit.result"
VERSION = 1
FILE = "result.json"
LESSON = re.compile(r"\d\d")
STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
RUN_FOLDER = re.compile(r"(\d{8}T\d{6}Z)(?:-(\d+))?")
MOST_IN_A_SECOND = 99


@dataclass(frozen=True)
class Model:
    """The model that was measured; None where a source does not tell."""

    name: str
    source: str | None
    revision: str | None
    sha256: str | None
    """Of the file with the weights, hexadecimal."""
    dtype: str
    """What was computed in, by PyTorch's name: float32, bfloat16."""


@dataclass(frozen=True)
class Protocol:
    """How it was measured; None where a source does not tell.

    `name` stands for the procedure: what is run and what the clock covers.
    Change the procedure and change the name: results of different names
    are never compared.
    """

    name: str
    conditions: tuple[str, ...]
    warmups: int | None
    repeats: int | None
    seed: int | None
    order: str | None
    threads: int | None
    prompt_sha256: str | None
    """Of the text, or of the ids, that prompts are made from."""

    @classmethod
    def of(
        cls,
        name: str,
        schedule: Schedule,
        threads: int,
        prompt_sha256: str | None = None,
    ) -> Protocol:
        """The protocol of trials that were made by this schedule."""
        return cls(
            name=name,
            conditions=schedule.conditions,
            warmups=schedule.warmups,
            repeats=schedule.repeats,
            seed=schedule.seed,
            order=schedule.order,
            threads=threads,
            prompt_sha256=prompt_sha256,
        )


@dataclass(frozen=True)
class Quantity:
    """A record with the observations that its value is computed from.

    No sample: a single reading or a count. One sample: the value is its
    median. Two: it is the ratio of their medians.
    """

    record: Record
    samples: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.samples:
            return
        name, value = self.record.name, self.record.value
        found = value_of(self.samples)
        if not isinstance(value, (int, float)) or found is None:
            raise LabError(f"{name}: no number follows from its samples")
        if not math.isclose(value, found, rel_tol=1e-12):
            raise LabError(
                f"{name}: the value is {value!r}, and {found!r} follows from"
                " its samples"
            )

    @classmethod
    def median(cls, name: str, unit: str, sample: Sequence[float]) -> Quantity:
        """The median of a sample; differs from machine to machine."""
        value = stats.median(sample)
        return cls(Record(name, value, unit), (tuple(map(float, sample)),))

    @classmethod
    def ratio(
        cls,
        name: str,
        above: Sequence[float],
        below: Sequence[float],
        low: float | None = None,
        high: float | None = None,
    ) -> Quantity:
        """A ratio of medians, with its range expected on any machine."""
        samples = tuple(map(float, above)), tuple(map(float, below))
        value = value_of(samples)
        if value is None:
            raise LabError(f"{name}: a ratio over 0 is undefined.")
        record = Record(name, value, rule="ratio", low=low, high=high)
        return cls(record, samples)


@dataclass(frozen=True)
class Result:
    """One run of one lesson's experiment.

    `started_utc` looks like 2025-01-31T12:00:00Z. `predictions` are by the
    name of the quantity and in its unit.
    """

    lesson: str
    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    model: Model
    protocol: Protocol
    observations: tuple[Observation, ...]
    quantities: tuple[Quantity, ...]
    predictions: Mapping[str, float] = field(default_factory=dict)
    theory: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What a formula, by its name, gives for quantities by theirs."""

    def __post_init__(self) -> None:
        for fault in (_form_fault(self), _observations_fault(self)):
            if fault:
                raise LabError(fault)


def value_of(samples: Sequence[Sequence[float]]) -> float | None:
    """What one sample (median) or two (ratio of medians) amount to.

    None for a ratio over 0; LabError for another number of samples.
    """
    if len(samples) not in (1, 2):
        raise LabError(f"{len(samples)} samples where one or two can be used")
    above, *below = map(stats.median, samples)
    if not below:
        return above
    return above / below[0] if below[0] else None


def timestamp(moment: datetime) -> str:
    """A moment in the form of `Result.started_utc`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_json(result: Result) -> dict[str, Any]:
    """The document of a result; LabError for what JSON cannot hold."""
    document = {"schema": SCHEMA, "version": VERSION, **asdict(result)}
    document["quantities"] = [
        quantity_to_json(quantity) for quantity in result.quantities
    ]
    for observation in document["observations"]:
        observation["value"] = records.plain(observation["value"])
    return documents.parse(documents.to_text(document))


def quantity_to_json(quantity: Quantity) -> dict[str, Any]:
    """The part of a document that holds a quantity."""
    try:
        record = records.to_json(quantity.record)
    except ValueError as error:
        raise LabError(str(error)) from error
    return {"record": record, "samples": quantity.samples}


def from_json(document: Mapping[str, Any]) -> Result:
    """The result in a document; LabError that says what is wrong with it."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    return documents.decode(Result, rest)


def load(path: Path) -> Result:
    """The result in a file; LabError, naming the file, for any fault."""
    document = documents.read(path)
    try:
        return from_json(document)
    except LabError as error:
        raise documents.refusal(path, str(error)) from error


def save(result: Result, root: Path) -> Path:
    """Write a result whole into a new folder under `root`; its file.

    No earlier result is written over: a second one that started in the
    same second gets a folder whose name ends in -2, and so on.
    """
    text = documents.to_text(to_json(result))
    try:
        folder = _new_folder(root / result.lesson, result.started_utc)
        try:
            store.write_text(folder / FILE, text)
        except BaseException:
            folder.rmdir()
            raise
    except OSError as error:
        raise LabError(
            f"The result could not be saved in {root}"
            f" ({error.strerror or error}): free space or choose a folder"
            " of yours, and run this again."
        ) from error
    return folder / FILE


def latest(root: Path, lesson: str, count: int = 1) -> list[Result]:
    """The last `count` results of a lesson, the newest last.

    LabError when there are fewer, or when one of them cannot be read or
    is of another lesson.
    """
    for folder in (root, root / lesson):
        if folder.exists() and not folder.is_dir():
            raise LabError(
                f"{folder} is a file, where results need a folder: move it"
                " away."
            )
    runs = [
        path / FILE
        for path in (root / lesson).glob("*")
        if RUN_FOLDER.fullmatch(path.name) and _is_there(path / FILE)
    ]
    runs.sort(key=lambda path: _place(path.parent.name))
    if not runs:
        raise LabError(
            f"There is no result of lesson {lesson} yet: run"
            f" `python -m labkit run {lesson}` first."
        )
    if len(runs) < count:
        raise LabError(
            f"{root} has {len(runs)} of the {count} results of lesson"
            f" {lesson} that are needed: run `python -m labkit run {lesson}`"
            f" {times_more(count - len(runs))}."
        )
    return [_load_of(lesson, path) for path in runs[len(runs) - count :]]


def times_more(number: int) -> str:
    """How often something has to be done again, in words."""
    return {1: "once more", 2: "twice more"}.get(number, f"{number} times")


def _is_there(path: Path) -> bool:
    """Whether a folder has such an entry, if only one that cannot be read.

    A folder or a broken link in a result's place counts: it is refused by
    name when it is loaded, and not passed over.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _load_of(lesson: str, path: Path) -> Result:
    """The result in a file of this lesson's folder."""
    result = load(path)
    if result.lesson != lesson:
        raise documents.refusal(
            path,
            f"it is of lesson {result.lesson}, in the folder of {lesson}",
        )
    return result


def _new_folder(parent: Path, started_utc: str) -> Path:
    """Make a folder that was not there, which only one process can do."""
    parent.mkdir(parents=True, exist_ok=True)
    name = re.sub("[-:]", "", started_utc)
    for number in range(1, MOST_IN_A_SECOND + 1):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise LabError(f"There are already {MOST_IN_A_SECOND} results of {name}.")


def _place(name: str) -> tuple[str, int]:
    """Sort key of a run's folder: its time, then its number."""
    time, _, number = name.partition("-")
    return time, int(number or 1)


def _form_fault(result: Result) -> str | None:
    """What is wrong with the names, or None."""
    protocol = result.protocol
    told = (protocol.warmups, protocol.repeats, protocol.seed)
    names = [quantity.record.name for quantity in result.quantities]
    checks = {
        "lesson must be two digits": LESSON.fullmatch(result.lesson),
        "started_utc must look like 2025-01-31T12:00:00Z": STARTED.fullmatch(
            result.started_utc
        ),
        "protocol lacks warm-ups, repeats or a seed": None not in told,
        "protocol lacks the order or the threads": (
            protocol.order is not None and protocol.threads is not None
        ),
        "machine.cores must be 1 or more": result.machine.cores >= 1,
        "it has no quantity": bool(names),
        "two quantities have the same name": len(set(names)) == len(names),
        "a prediction is not a finite number": all(
            map(math.isfinite, result.predictions.values())
        ),
    }
    return next((fault for fault, fine in checks.items() if not fine), None)


def _observations_fault(result: Result) -> str | None:
    """What keeps the observations from being those of the protocol."""
    seen = set()
    for observation in result.observations:
        run = observation.condition, observation.repeat
        if observation.condition not in result.protocol.conditions:
            return f"{observation.condition!r} is no condition of the protocol"
        if run in seen:
            return f"{run[0]!r} has two observations of repeat {run[1]}"
        if not 0 <= observation.seconds < math.inf:
            return f"{run[0]!r} took {observation.seconds} s"
        seen.add(run)
    return None
