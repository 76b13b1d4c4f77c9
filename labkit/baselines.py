"""Results to compare with: what others reported, and reference runs.

`data/published/*.json` holds figures as their authors reported them;
`data/baselines/<machine>/<NN>.json` holds whole results of one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from labkit import course, documents, machine, records, results
from labkit.errors import LabError
from labkit.machine import Speed
from labkit.records import Record
from labkit.results import Model, Protocol, Quantity, Result

SCHEMA = "labkit.baseline"
SPEED = "labkit.speed"
SPEED_FILE = "speed.json"
PUBLISHED = "labkit.published"
VERSION = 1


@dataclass(frozen=True)
class Baseline:
    """Figures of one other run, or of several of one machine together.

    A `reported` baseline has values alone; a `measured` one has every
    observation as well. `theory` has what a formula gives for this very
    run.
    """

    name: str
    kind: Literal["reported", "measured", "theory"]
    machine: str
    model: Model
    protocol: Protocol
    quantities: tuple[Quantity, ...]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest observation, by quantity, where reported."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A baseline that is not compared with, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class ReportedRun:
    """One experiment of a source; notes hold what is not a figure."""

    lessons: tuple[str, ...]
    """Lessons of this course that set their own result beside it."""
    protocol: Protocol
    quantities: tuple[Quantity, ...]
    ranges: Mapping[str, tuple[float, float]]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A published report: what was measured, on what, and by whom."""

    title: str
    machine: str
    software: Mapping[str, str]
    model: Model
    runs: tuple[ReportedRun, ...]


def data_folder(start: Path | None = None) -> Path:
    """The folder with prompts, published results and baselines.

    Found from the working directory upwards, else beside the package.
    """
    return course.folder(start) / "data"


def load(data: Path, lesson: str) -> list[Baseline | Refused]:
    """Everything that a lesson's result may be compared with.

    Reference runs first, then reported results; a file that cannot be
    used is Refused with the reason.
    """
    found: list[Baseline | Refused] = []
    for path in sorted(data.glob(f"baselines/*/{lesson}.json")):
        try:
            document = _parsed(path)
            found.append(measured(path.parent.name, document, lesson))
        except LabError as error:
            found.append(Refused(path.parent.name, str(error)))
    for path in sorted(data.glob("published/*.json")):
        try:
            found += reported(_parsed(path), lesson)
        except LabError as error:
            found.append(Refused(path.stem, str(error)))
    return found


def first_result(data: Path, lesson: str) -> Result | None:
    """The first run of the first baseline that can be read, if any."""
    for path in sorted(data.glob(f"baselines/*/{lesson}.json")):
        with suppress(LabError):
            return results_of(_parsed(path))[0]
    return None


def speeds(data: Path) -> Iterator[tuple[str, Speed]]:
    """What each machine that has baselines reads and computes at best.

    By the machine's name, from `baselines/<machine>/speed.json`; a file that
    cannot be used is left out.
    """
    for path in sorted(data.glob(f"baselines/*/{SPEED_FILE}")):
        with suppress(LabError):
            rest = documents.require_schema(_parsed(path), SPEED, VERSION)
            speed = documents.decode(Speed, rest)
            if speed.read_bytes_per_s > 0 and speed.flop_per_s > 0:
                yield path.parent.name, speed


def speed_to_json(speed: Speed) -> dict[str, Any]:
    """The document of a machine's speed."""
    return {"schema": SPEED, "version": VERSION, **asdict(speed)}


def to_json(lesson: str, runs: Sequence[Result]) -> dict[str, Any]:
    """The document of a baseline: whole results, without predictions."""
    documents_of_runs = [results.to_json(run) for run in runs]
    for document in documents_of_runs:
        document["predictions"] = {}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "lesson": lesson,
        "results": documents_of_runs,
    }


@dataclass(frozen=True)
class _Stored:
    """A baseline's document below its schema."""

    lesson: str
    results: tuple[dict[str, Any], ...]


def results_of(document: Mapping[str, Any]) -> list[Result]:
    """The results in a baseline's document; LabError for any fault."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    stored = documents.decode(_Stored, rest)
    if not stored.results:
        raise LabError("it holds no results")
    runs = [results.from_json(run) for run in stored.results]
    if any(run.lesson != stored.lesson for run in runs):
        raise LabError("one of its results is of another lesson")
    return runs


def measured(name: str, document: Mapping[str, Any], lesson: str) -> Baseline:
    """A reference run: the observations of its results taken together."""
    runs = results_of(document)
    if runs[0].lesson != lesson:
        raise LabError("it is of another lesson")
    first = runs[0]
    here = first.machine
    return Baseline(
        name=name,
        kind="measured",
        machine=f"{here.cpu}, {here.cores} cores, {here.system}",
        model=first.model,
        protocol=first.protocol,
        quantities=pooled(runs),
    )


def pooled(runs: Sequence[Result]) -> tuple[Quantity, ...]:
    """Each quantity of the first run with the samples of all runs.

    Single readings, and ratios of them, become one sample; a value that is
    judged as exact or close stays that of the first run.
    """
    by_name = [{q.record.name: q for q in run.quantities} for run in runs]
    made = []
    for quantity in runs[0].quantities:
        name = quantity.record.name
        same = [names[name] for names in by_name if name in names]
        made.append(_pool(same))
    return tuple(made)


def reported(document: Mapping[str, Any], lesson: str) -> list[Baseline]:
    """What one source reports that belongs beside this lesson."""
    rest = documents.require_schema(document, PUBLISHED, VERSION)
    source = documents.decode(Source, rest)
    return [
        Baseline(
            name=source.title,
            kind="reported",
            machine=source.machine,
            model=source.model,
            protocol=run.protocol,
            quantities=run.quantities,
            ranges=run.ranges,
            notes=run.notes,
        )
        for run in source.runs
        if lesson in run.lessons
    ]


def beside(result: Result, data: Path) -> list[Baseline | Refused]:
    """All that a result is compared with: others, and its own theory."""
    formulas = [theory(n, result, v) for n, v in result.theory.items()]
    return [*load(data, result.lesson), *formulas]


def theory(name: str, result: Result, values: Mapping[str, float]) -> Baseline:
    """What a formula gives for quantities of a result, in their units."""
    units = {q.record.name: q.record.unit for q in result.quantities}
    return Baseline(
        name=name,
        kind="theory",
        machine="a formula with this machine's figures",
        model=result.model,
        protocol=result.protocol,
        quantities=tuple(
            Quantity(Record(quantity, value, units.get(quantity, "")))
            for quantity, value in values.items()
        ),
    )


def slug(result: Result) -> str:
    """Folder under `data/baselines` for the machine of a result."""
    return machine.slug(result.machine, result.software)


def _parsed(path: Path) -> dict[str, Any]:
    """The document in a file; a LabError names no path of this machine."""
    try:
        return documents.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise LabError("it cannot be read as text") from error


def _pool(same: Sequence[Quantity]) -> Quantity:
    """Quantities of one name from several runs as one."""
    record = same[0].record
    if len({len(quantity.samples) for quantity in same}) > 1:
        raise LabError(f"{record.name}: its runs keep other samples")
    samples = tuple(
        tuple(number for sample in slot for number in sample)
        for slot in zip(*(q.samples for q in same), strict=True)
    )
    values = [quantity.record.value for quantity in same]
    judged = record.rule in ("exact", "close")
    if not samples and not judged and all(map(records.is_number, values)):
        samples = (tuple(map(float, values)),)
    if not samples:
        return same[0]
    value = results.value_of(samples)
    return Quantity(replace(record, value=value), samples)
