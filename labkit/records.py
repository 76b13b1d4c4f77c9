"""Numbers that a lesson leaves in a cell's output, with how to compare them.

A record stands in an output's mime bundle under `MIME`, beside a readable
`text/plain`. Its rule says what a later run on any machine must show:

- `exact`: the same value (token ids, counts, bytes, shapes);
- `close`: every number within `atol + rtol * |committed|`, equal shapes;
- `ratio`: nothing; `verdict` says whether it lies in the expected range;
- `info`: nothing.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

MIME = "application/vnd.labkit.record+json"

Rule = Literal["exact", "close", "ratio", "info"]
RULES: tuple[str, ...] = get_args(Rule)

# Strings, numbers, true and false, None, and lists of these to any depth.
Value: TypeAlias = Any

_ALWAYS = ("name", "value", "unit", "rule")
_BY_RULE: dict[str, tuple[str, ...]] = {
    "close": ("rtol", "atol"),
    "ratio": ("low", "high"),
}
_SHOWN_ITEMS = 16


@dataclass(frozen=True)
class Record:
    """One named value with its unit and the rule that judges it.

    `rtol` and `atol` belong to `close` and at least one is above 0; `low`
    and `high` (either may be open) belong to `ratio`. Anything else is a
    ValueError whose sentence names the record.
    """

    name: str
    value: Value
    unit: str = ""
    rule: Rule = "info"
    rtol: float = 0.0
    atol: float = 0.0
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        for fault in (_shape_fault(self), _rule_fault(self)):
            if fault:
                raise ValueError(f"Record {self.name!r}: {fault}.")


def plain(value: object) -> Value:
    """The value as JSON can hold it.

    Tuples and tensor shapes become lists; anything with `tolist` (a NumPy
    scalar or array, a tensor) becomes the numbers it holds. Other objects
    are returned as they are, and `Record` refuses them.
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def to_json(record: Record) -> dict[str, Value]:
    """The record as the mapping that is stored under `MIME`.

    Raises ValueError for NaN and infinity, which JSON has no number for.
    """
    path = _not_finite(record.value)
    if path is not None:
        raise ValueError(
            f"Record {record.name!r}: the value{path} is not a finite"
            " number; record None where a value is undefined."
        )
    fields = _ALWAYS + _BY_RULE.get(record.rule, ())
    return {field: getattr(record, field) for field in fields}


def from_json(data: object) -> Record:
    """The record that `to_json` stored; ValueError for anything else."""
    if not isinstance(data, Mapping):
        raise ValueError(
            f"A record is a JSON object, not {type(data).__name__}."
        )
    label = f"Record {data.get('name', '(no name)')!r}"
    rule = data.get("rule")
    extra = _BY_RULE.get(rule, ()) if isinstance(rule, str) else ()
    missing = [field for field in _ALWAYS + extra if field not in data]
    if missing:
        raise ValueError(f"{label}: {', '.join(missing)} missing.")
    unknown = sorted(str(key) for key in data if key not in _ALWAYS + extra)
    if unknown and rule in RULES:
        raise ValueError(
            f"{label}: {', '.join(unknown)} does not belong to the rule"
            f" {rule!r}."
        )
    record = Record(**{field: data[field] for field in _ALWAYS + extra})
    to_json(record)  # Python's JSON reader lets NaN in; this does not
    return record


def describe(record: Record) -> str:
    """One readable line: name, value, unit, and a ratio's verdict."""
    unit = f" {record.unit}" if record.unit else ""
    said = verdict(record)
    tail = f" ({said})" if said else ""
    return f"{record.name}: {_shown(record.value)}{unit}{tail}"


def bundle(record: Record) -> dict[str, Value]:
    """The mime bundle to display: the record and its readable line."""
    return {MIME: to_json(record), "text/plain": describe(record)}


def records_of(notebook: Any) -> dict[str, list[Record]]:
    """Cell id -> its records in order, for the cells that hold any.

    Takes an nbformat notebook (or the same as plain mappings with
    attribute access). ValueError names the cell of a malformed record.
    """
    found: dict[str, list[Record]] = {}
    for cell in notebook.cells:
        outputs = cell.outputs if cell.cell_type == "code" else []
        try:
            records = [
                from_json(output.data[MIME])
                for output in outputs
                if MIME in output.get("data", {})
            ]
        except ValueError as error:
            raise ValueError(f"Cell {cell.id}: {error}") from error
        if records:
            found[cell.id] = records
    return found


def problems(committed: Record, fresh: Record) -> list[str]:
    """What keeps a fresh record from agreeing with the committed one.

    One sentence for each fault, none when they agree. The fields that
    judge (name, unit, rule, tolerance, range) must be the same.
    """
    found = [
        f"{committed.name}: {field} was {before!r}, now {now!r}"
        for field in ("name", "unit", "rule", "rtol", "atol", "low", "high")
        if (before := getattr(committed, field))
        != (now := getattr(fresh, field))
    ]
    if not found and committed.rule in ("exact", "close"):
        fault = _difference(committed.value, fresh.value, committed, "")
        found = [f"{committed.name}: {fault}"] if fault else []
    return found


def verdict(record: Record) -> str | None:
    """Whether a ratio lies in its range, in words; None for other rules."""
    if record.rule != "ratio":
        return None
    low = -math.inf if record.low is None else record.low
    high = math.inf if record.high is None else record.high
    side = "inside" if low <= record.value <= high else "outside"
    if record.high is None:
        span = f"{_shown(record.low)} or more"
    elif record.low is None:
        span = f"{_shown(record.high)} or less"
    else:
        span = f"{_shown(record.low)} to {_shown(record.high)}"
    return f"{side} the expected range, {span}"


def _shape_fault(record: Record) -> str | None:
    if not isinstance(record.name, str) or not record.name.strip():
        return "the name must be a text that is not empty"
    if not isinstance(record.unit, str):
        return f"the unit must be a text, not {type(record.unit).__name__}"
    odd = _not_plain(record.value)
    if odd is not None:
        return f"a value of type {odd} cannot be recorded"
    for field in ("rtol", "atol"):
        number = getattr(record, field)
        if not is_number(number) or not 0 <= number < math.inf:
            return f"{field} must be a number of at least 0, not {number!r}"
    for field in ("low", "high"):
        number = getattr(record, field)
        if number is not None and not (
            is_number(number) and math.isfinite(number)
        ):
            return f"{field} must be a finite number, not {number!r}"
    return None


def _rule_fault(record: Record) -> str | None:
    if record.rule not in RULES:
        return f"the rule must be one of {', '.join(RULES)}, not" + (
            f" {record.rule!r}"
        )
    has_tolerance = bool(record.rtol or record.atol)
    has_range = record.low is not None or record.high is not None
    if has_tolerance != (record.rule == "close"):
        return "the rule 'close', and no other, needs rtol or atol above 0"
    if has_range != (record.rule == "ratio"):
        return "the rule 'ratio', and no other, needs low or high"
    if record.rule == "ratio" and not is_number(record.value):
        return "a ratio must be one number"
    if record.low is not None and record.high is not None:
        return None if record.low <= record.high else "low is above high"
    return None


def is_number(value: object) -> bool:
    """Whether a value is a number; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _not_plain(value: Value) -> str | None:
    """Type name of the first part that JSON cannot hold."""
    if isinstance(value, list):
        found = (_not_plain(item) for item in value)
        return next((name for name in found if name is not None), None)
    if value is None or isinstance(value, (str, int, float)):
        return None
    return type(value).__name__


def _not_finite(value: Value, path: str = "") -> str | None:
    """Index path of the first NaN or infinity."""
    if isinstance(value, list):
        found = (
            _not_finite(item, f"{path}[{i}]") for i, item in enumerate(value)
        )
        return next((place for place in found if place is not None), None)
    if isinstance(value, float) and not math.isfinite(value):
        return path
    return None


def _difference(
    before: Value, now: Value, record: Record, path: str
) -> str | None:
    """The first place where two values disagree, in words."""
    if isinstance(before, list) and isinstance(now, list):
        pairs = enumerate(zip(before, now, strict=False))
        found = (
            _difference(a, b, record, f"{path}[{i}]") for i, (a, b) in pairs
        )
        fault = next((text for text in found if text), None)
        if fault is None and len(before) != len(now):
            place = f" at {path}" if path else ""
            fault = f"length{place} was {len(before)}, now {len(now)}"
        return fault
    if _agree(before, now, record):
        return None
    place = f"first difference at {path}: " if path else ""
    bound = (
        f" (rtol {record.rtol:g}, atol {record.atol:g})"
        if record.rule == "close"
        else ""
    )
    return f"{place}was {before!r}, now {now!r}{bound}"


def _agree(before: Value, now: Value, record: Record) -> bool:
    """Whether two values that are not both lists agree under the rule."""
    if not (is_number(before) and is_number(now)):
        # True is not 1 here, although Python says so.
        return type(before) is type(now) and bool(before == now)
    if record.rule == "exact":
        return bool(before == now)
    return bool(abs(now - before) <= record.atol + record.rtol * abs(before))


def _shown(value: Value) -> str:
    """Numbers with thousands separators or four digits; long lists cut."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, list):
        items = [_listed(item) for item in value[:_SHOWN_ITEMS]]
        more = len(value) - len(items)
        return f"[{', '.join(items)}{f', and {more} more' if more else ''}]"
    return str(value)


def _listed(value: Value) -> str:
    """An item of a list: no separators, which would read as commas."""
    if isinstance(value, int) or value is None:
        return str(value)
    if isinstance(value, str):
        return repr(value)
    return _shown(value)
