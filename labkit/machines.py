"""One quantity on every machine, sorted, and beside the machine's ceiling.

A machine that reads memory twice as fast should decode about twice as fast.
So a time is also given as the bytes that its machine could have read
meanwhile, and a rate as tokens for each gigabyte that it can read: what then
still differs is not explained by the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labkit import baselines, comparison, records, tables
from labkit.baselines import Baseline, Refused
from labkit.comparison_table import figure
from labkit.errors import LabError
from labkit.machine import Speed
from labkit.observations import noise_of
from labkit.results import Quantity, Result

COLUMNS = ("machine", "value", "its spread", "reads", "normalised", "remarks")
SECONDS = {"s": 1.0, "ms": 1e-3}
RATE = "tokens/s"
YOURS = "yours"
LEGEND = (
    "reads: what the machine reads from memory at best. normalised: what it\n"
    "could have read in that time, or tokens for each GB that it reads; it\n"
    "says nothing of a time that was scripted or waited. its spread: lowest\n"
    "and highest of all its runs; ratios of medians have none. Rates go from\n"
    "the highest down, times and ratios from the lowest up: a lower ratio is\n"
    "not a better one."
)


@dataclass(frozen=True)
class Entry:
    """One machine's figure for one quantity.

    `spread` are its lowest and highest observation, where they are known;
    `read_gb_per_s` what it reads at best, 10^9 bytes a second.
    """

    name: str
    value: float
    spread: tuple[float, float] | None
    read_gb_per_s: float | None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ranking:
    """One quantity on all machines that have it.

    Rates from the highest down, times and ratios from the lowest up.
    """

    name: str
    unit: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Everyone:
    """Times, rates and ratios of a lesson, and baselines left out."""

    rankings: tuple[Ranking, ...]
    refused: tuple[Refused, ...]


def everyone(
    reference: Result,
    found: Sequence[Baseline | Refused],
    speeds: Mapping[str, Speed],
    *,
    own: bool,
) -> Everyone:
    """Every machine's figures beside those of a result.

    Marked and refused as in `comparison.compare`. `speeds` are by the name
    of a baseline, or YOURS. With `own` the result is among the machines;
    without, it says only what can be compared.
    """
    kept, refused = [], []
    for baseline in found:
        reason = (
            baseline.reason
            if isinstance(baseline, Refused)
            else comparison.refusal(reference, baseline)
        )
        if isinstance(baseline, Refused) or reason:
            refused.append(Refused(baseline.name, reason or ""))
        elif baseline.kind != "theory":
            kept.append(baseline)
    rankings = [
        _ranking(quantity, reference, kept, speeds, own)
        for quantity in reference.quantities
        if _is_ranked(quantity)
    ]
    return Everyone(
        tuple(ranking for ranking in rankings if ranking.entries),
        tuple(refused),
    )


def of_lesson(
    number: str,
    data: Path,
    mine: Result | None,
    my_speed: Speed | None,
) -> Everyone:
    """Every machine's figures for a lesson, with a learner's among them.

    Without a result of the learner's, the first baseline says what can be
    compared. LabError when there is none either.
    """
    found = baselines.load(data, number)
    speeds = dict(baselines.speeds(data))
    if my_speed is not None:
        speeds[YOURS] = my_speed
    if mine is not None:
        return everyone(mine, found, speeds, own=True)
    first = baselines.first_result(data, number)
    if first is None:
        raise LabError(
            f"No machine has a baseline of lesson {number}, and you have no"
            f" result: run it with `python -m labkit run {number}`."
        )
    return everyone(first, found, speeds, own=False)


def normalised(entry: Entry, unit: str) -> tuple[float, str] | None:
    """A figure beside what its machine reads; None where that says nothing.

    Seconds become GB that could have been read meanwhile, tokens/s become
    tokens for each GB.
    """
    reads = entry.read_gb_per_s
    if reads is None:
        return None
    if unit in SECONDS:
        return entry.value * SECONDS[unit] * reads, "GB"
    return (entry.value / reads, "tokens/GB") if unit == RATE else None


def rows(ranking: Ranking) -> list[tuple[str, ...]]:
    """A head and a line for each machine, as texts."""
    return [COLUMNS, *(_cells(e, ranking.unit) for e in ranking.entries)]


def title(ranking: Ranking) -> str:
    """The quantity with its unit."""
    unit = f" ({ranking.unit})" if ranking.unit else ""
    return f"{ranking.name}{unit}"


def as_text(everything: Everyone) -> str:
    """All of it for a terminal."""
    parts = [
        f"{title(ranking)}\n{tables.as_text(rows(ranking))}"
        for ranking in everything.rankings
    ]
    parts += [f"{r.name}: left out, {r.reason}" for r in everything.refused]
    return "\n\n".join([*parts, LEGEND])


def _is_ranked(quantity: Quantity) -> bool:
    record = quantity.record
    is_time = record.unit in SECONDS or record.unit == RATE
    measured = record.rule == "info" and is_time
    return records.is_number(record.value) and (
        measured or record.rule == "ratio"
    )


def _ranking(
    quantity: Quantity,
    reference: Result,
    kept: Sequence[Baseline],
    speeds: Mapping[str, Speed],
    own: bool,
) -> Ranking:
    record = quantity.record
    entries = list(_entries(record.name, reference, kept, speeds))
    if own:
        yours = _entry(YOURS, quantity, speeds.get(YOURS))
        entries.append(replace(yours, marks=tuple(_noisy(reference))))
    entries.sort(key=lambda e: e.value, reverse=record.unit == RATE)
    return Ranking(record.name, record.unit, tuple(entries))


def _noisy(result: Result) -> Iterator[str]:
    if noise_of(result.observations, result.machine.cores).reasons:
        yield f"too noisy to quote: compare {result.lesson} says why"


def _entries(
    name: str,
    reference: Result,
    kept: Sequence[Baseline],
    speeds: Mapping[str, Speed],
) -> Iterator[Entry]:
    for baseline in kept:
        for quantity in baseline.quantities:
            same = quantity.record.name == name
            if same and records.is_number(quantity.record.value):
                reads = speeds.get(baseline.name)
                entry = _entry(baseline.name, quantity, reads)
                yield replace(
                    entry,
                    spread=entry.spread or baseline.ranges.get(name),
                    marks=tuple(comparison.marks(reference, baseline)),
                )


def _entry(name: str, quantity: Quantity, speed: Speed | None) -> Entry:
    value = quantity.record.value
    assert isinstance(value, (int, float))
    samples = quantity.samples
    spread = None
    if len(samples) == 1 and samples[0]:
        spread = min(samples[0]), max(samples[0])
    reads = speed.read_bytes_per_s / 1e9 if speed else None
    return Entry(name, float(value), spread, reads)


def _cells(entry: Entry, unit: str) -> tuple[str, ...]:
    spread, reads = entry.spread, entry.read_gb_per_s
    beside = normalised(entry, unit)
    return (
        entry.name,
        figure(entry.value),
        f"{figure(spread[0])} to {figure(spread[1])}" if spread else "",
        f"{reads:.1f} GB/s" if reads else "not known",
        f"{figure(beside[0])} {beside[1]}" if beside else "",
        "; ".join(entry.marks),
    )
