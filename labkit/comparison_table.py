"""A comparison as rows, as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from labkit.comparison import Against, Comparison, Row
from labkit.records import Value
from labkit.stats import Interval

LONGEST_LIST = 4
MANY = 10_000
COLUMNS = (
    "quantity",
    "predicted",
    "yours",
    "its spread",
    "baseline",
    "its value",
    "yours / its",
    "on any machine",
)


def as_rows(comparison: Comparison) -> list[dict[str, str]]:
    """The table, one row for each quantity and baseline, as texts.

    The columns are `COLUMNS`; what belongs to the quantity alone stands in
    its first row and is empty in the others. Quantities that have something
    to compare with come first.
    """
    rows = sorted(comparison.rows, key=_stands_alone)
    return [
        dict(zip(COLUMNS, cells, strict=True))
        for row in rows
        for cells in _cells(row)
    ]


def as_text(comparison: Comparison) -> str:
    """The comparison for a terminal: a few short lines a quantity.

    Quantities that have something to compare with come first.
    """
    lines: list[str] = []
    for row in sorted(comparison.rows, key=_stands_alone):
        lines += _block(row)
    return "\n".join([*lines, *legend(comparison)])


def _block(row: Row) -> Iterator[str]:
    unit = f" {row.unit}" if row.unit else ""
    spread = _spread(row)
    yield f"{row.name}: {figure(row.value)}{unit}" + (
        f" ({spread})" if spread else ""
    )
    if row.predicted is not None:
        yield f"    predicted  {figure(row.predicted)}"
    for beside in row.against:
        key, value, relative = _beside(beside)
        beside_it = f"; yours / its {relative}" if relative else ""
        yield f"    {key:<9}  {value}{beside_it}"
    verdict = f": {row.verdict}" if row.verdict else ""
    yield f"    elsewhere  {row.expected}{verdict}"


def legend(comparison: Comparison) -> list[str]:
    """The lines below the table: baselines, refusals and warnings."""
    lines = [
        f"{b.key}: {b.name} ({'; '.join((b.machine, *b.marks))})"
        for b in comparison.baselines
    ]
    lines += [f"not used: {r.name}: {r.reason}" for r in comparison.refused]
    lines += [f"too noisy to quote: {reason}" for reason in comparison.noise]
    if comparison.unused:
        names = ", ".join(comparison.unused)
        lines.append(f"predicted but not measured: {names}")
    return lines


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain JSON values; undefined is null."""
    return asdict(comparison)


def figure(value: Value) -> str:
    """A value for a cell: four digits, a long list by its length.

    A large number has its thousands apart, but not in a list, where commas
    stand between numbers.
    """
    if value is None:
        return ""
    if isinstance(value, int) and abs(value) >= MANY:
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= MANY - 0.5 else f"{value:.4g}"
    if isinstance(value, list):
        if len(value) > LONGEST_LIST:
            return f"{len(value)} values"
        return f"[{', '.join(map(_in_list, value))}]"
    return str(value)


def _in_list(value: Value) -> str:
    text = figure(value)
    return text if isinstance(value, str) else text.replace(",", "")


def _stands_alone(row: Row) -> bool:
    return not row.against and row.predicted is None


def _cells(row: Row) -> Iterator[list[str]]:
    """The cells of a quantity: one line, or one for each baseline."""
    name = f"{row.name} ({row.unit})" if row.unit else row.name
    expected = (
        f"{row.expected}: {row.verdict}" if row.verdict else row.expected
    )
    first = [name, figure(row.predicted), figure(row.value), _spread(row)]
    for beside in row.against or (None,):
        yield [*first, *_beside(beside), expected]
        first, expected = [""] * len(first), ""


def _beside(beside: Against | None) -> list[str]:
    if beside is None:
        return ["", "", ""]
    value = figure(beside.value)
    if beside.low is not None and beside.low != beside.high:
        value += f" ({figure(beside.low)} to {figure(beside.high)})"
    relative = figure(beside.ratio) + _interval(beside.interval)
    return [
        beside.key,
        value,
        "; ".join(filter(None, [relative, beside.note])),
    ]


def _spread(row: Row) -> str:
    """The middle half of one sample, or the interval of a ratio."""
    if row.spread is not None and row.spread.count > 1:
        low, high = figure(row.spread.lower), figure(row.spread.upper)
        return f"middle half {low} to {high}, n = {row.spread.count}"
    return _interval(row.interval).strip()


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" [{figure(interval.low)}, {figure(interval.high)}]"
