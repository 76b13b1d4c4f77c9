"""A result beside its predictions and every baseline, in one table.

The rule of a quantity says what may be expected of another machine:
counts and tokens must match, ratios of times should lie in their range,
and seconds will not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from labkit import records, stats
from labkit.baselines import Baseline, Refused
from labkit.observations import noise_of
from labkit.records import Value
from labkit.results import Model, Quantity, Result
from labkit.stats import Interval, Spread


@dataclass(frozen=True)
class Shown:
    """A baseline in the table: its key there, and how it differs."""

    key: str
    name: str
    machine: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Against:
    """One baseline's figure for one quantity.

    `ratio` is yours over its, `interval` that ratio's; for a reported
    figure the interval has your spread in it alone. `agrees` is None where
    the rule, or another model, leaves nothing to judge.
    """

    key: str
    value: Value
    low: float | None
    high: float | None
    ratio: float | None
    interval: Interval | None
    agrees: bool | None
    note: str


@dataclass(frozen=True)
class Row:
    """One quantity: what was predicted, measured, and found by others.

    `interval` is that of the median, or of the ratio of medians.
    """

    name: str
    unit: str
    predicted: float | None
    value: Value
    spread: Spread | None
    interval: Interval | None
    expected: str
    verdict: str
    against: tuple[Against, ...]


@dataclass(frozen=True)
class Comparison:
    """All rows, the baselines in them, and those that were left out.

    `noise` are reasons not to quote the result's medians; `unused` are
    predictions of what was not measured.
    """

    lesson: str
    rows: tuple[Row, ...]
    baselines: tuple[Shown, ...]
    refused: tuple[Refused, ...]
    noise: tuple[str, ...]
    unused: tuple[str, ...]


def compare(
    result: Result,
    predictions: Mapping[str, float],
    baselines: Sequence[Baseline | Refused],
) -> Comparison:
    """Set a result beside predictions (by name) and baselines.

    A baseline of another model or dtype is kept and marked; one of another
    protocol, or without any of the quantities, is refused with the reason.
    """
    refused, kept = [], []
    for baseline in baselines:
        if isinstance(baseline, Refused):
            refused.append(baseline)
        elif reason := refusal(result, baseline):
            refused.append(Refused(baseline.name, reason))
        else:
            kept.append(baseline)
    others = [b for b in kept if b.kind != "theory"]
    keyed = [(_key(i, result, b), b) for i, b in enumerate(others)]
    keyed += [("theory", b) for b in kept if b.kind == "theory"]
    names = {quantity.record.name for quantity in result.quantities}
    return Comparison(
        lesson=result.lesson,
        rows=tuple(
            _row(result, quantity, predictions, keyed)
            for quantity in result.quantities
        ),
        baselines=tuple(
            Shown(key, b.name, b.machine, tuple(marks(result, b)))
            for key, b in keyed
        ),
        refused=tuple(refused),
        noise=noise_of(result.observations, result.machine.cores).reasons,
        unused=tuple(name for name in predictions if name not in names),
    )


def refusal(result: Result, baseline: Baseline) -> str | None:
    """Why a baseline cannot be compared with, or None if it can."""
    mine, theirs = result.protocol, baseline.protocol
    blocked = [p.order == "blocked" for p in (mine, theirs)]
    cold = [p.warmups == 0 for p in (mine, theirs)]
    prompts = mine.prompt_sha256, theirs.prompt_sha256
    names = {quantity.record.name for quantity in result.quantities}
    reasons = {
        f"its protocol is {theirs.name!r} and yours {mine.name!r}": (
            mine.name != theirs.name
        ),
        "one of the two ran its conditions block by block": (
            blocked[0] != blocked[1]
        ),
        "one of the two did not warm up": (
            cold[0] != cold[1] and theirs.warmups is not None
        ),
        "its prompts were made from another text": (
            None not in prompts and prompts[0] != prompts[1]
        ),
        "it has none of these quantities": not names.intersection(
            quantity.record.name for quantity in baseline.quantities
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def marks(result: Result, baseline: Baseline) -> Iterator[str]:
    """How a baseline that is kept differs from the result."""
    mine, theirs = result.protocol, baseline.protocol
    if not same_model(result.model, baseline.model):
        yield f"another model: {baseline.model.name}"
    if result.model.dtype != baseline.model.dtype:
        yield f"another dtype: {baseline.model.dtype}"
    for field in ("threads", "warmups", "repeats"):
        known: int | None = getattr(theirs, field)
        own: int | None = getattr(mine, field)
        if known is not None and known != own:
            yield f"{field}: {known}, yours {own}"
    if baseline.kind == "reported":
        yield "reported figures, without their observations"


def same_model(mine: Model, theirs: Model) -> bool:
    """Whether two runs used the same weights, as far as is known.

    By the hash of the weights where both have one, else by name.
    """
    if mine.sha256 and theirs.sha256:
        return mine.sha256 == theirs.sha256
    return mine.name == theirs.name


def expectation(quantity: Quantity) -> str:
    """What another machine may be expected to show for a quantity."""
    record = quantity.record
    if record.rule == "info":
        return "will not match"
    if record.rule != "ratio":
        return "must match"
    low, high = record.low, record.high
    if high is None:
        return f"should be {low:.4g} or more"
    if low is None:
        return f"should be {high:.4g} or less"
    return f"should be {low:.4g} to {high:.4g}"


def _key(index: int, result: Result, baseline: Baseline) -> str:
    """A, B, ... Z, A2, ...; a star for another model or dtype."""
    turn, letter = divmod(index, len(ascii_uppercase))
    star = "*" if _other_model(result, baseline) else ""
    return ascii_uppercase[letter] + (str(turn + 1) if turn else "") + star


def _row(
    result: Result,
    quantity: Quantity,
    predictions: Mapping[str, float],
    baselines: Sequence[tuple[str, Baseline]],
) -> Row:
    record, samples = quantity.record, quantity.samples
    interval = stats.bootstrap_quotient(samples[:1], samples[1:])
    against = tuple(
        _against(result, quantity, key, baseline, theirs)
        for key, baseline in baselines
        for theirs in baseline.quantities
        if theirs.record.name == record.name
    )
    return Row(
        name=record.name,
        unit=record.unit,
        predicted=predictions.get(record.name),
        value=record.value,
        spread=stats.spread(samples[0]) if len(samples) == 1 else None,
        interval=interval,
        expected=expectation(quantity),
        verdict=_verdict(quantity, interval, against),
        against=against,
    )


def _against(
    result: Result,
    mine: Quantity,
    key: str,
    baseline: Baseline,
    theirs: Quantity,
) -> Against:
    """One cell group: the baseline's figure and yours relative to it."""
    name, unit = mine.record.name, theirs.record.unit
    low, high = baseline.ranges.get(name, (None, None))
    if low is None and len(theirs.samples) == 1:
        low, high = min(theirs.samples[0]), max(theirs.samples[0])
    same_unit = unit == mine.record.unit
    ratio, interval = _relative(mine, theirs) if same_unit else (None, None)
    faults = None
    if _judged(result, mine, baseline):
        faults = records.problems(theirs.record, mine.record)
    notes = [*(faults or []), *([] if same_unit else [f"in {unit}"])]
    return Against(
        key=key,
        value=theirs.record.value,
        low=low,
        high=high,
        ratio=ratio,
        interval=interval,
        agrees=None if faults is None else not faults,
        note="; ".join(notes),
    )


def _other_model(result: Result, baseline: Baseline) -> bool:
    same_dtype = result.model.dtype == baseline.model.dtype
    return not (same_dtype and same_model(result.model, baseline.model))


def _judged(result: Result, mine: Quantity, baseline: Baseline) -> bool:
    """Tokens and logits are those of one model and one dtype only."""
    return (
        mine.record.rule in ("exact", "close")
        and baseline.kind == "measured"
        and not _other_model(result, baseline)
    )


def _relative(
    mine: Quantity, theirs: Quantity
) -> tuple[float | None, Interval | None]:
    """Yours over the baseline's, with an interval where there is one."""
    own, other = mine.record.value, theirs.record.value
    if not (records.is_number(own) and records.is_number(other)) or other <= 0:
        return None, None
    if mine.record.rule in ("exact", "close"):
        return None, None
    if theirs.samples:
        interval = stats.bootstrap_quotient(
            (*mine.samples[:1], *theirs.samples[1:]),
            (*mine.samples[1:], *theirs.samples[:1]),
        )
        return own / other, interval if mine.samples else None
    alone = stats.bootstrap_quotient(mine.samples[:1], mine.samples[1:])
    if alone is None:
        return own / other, None
    scaled = alone.low / other, alone.high / other
    return own / other, Interval(*scaled, alone.confidence)


def _verdict(
    mine: Quantity, interval: Interval | None, against: Sequence[Against]
) -> str:
    """What came of the expectation, in words."""
    record = mine.record
    if record.rule == "info":
        return ""
    if record.rule == "ratio":
        return _side(mine, interval)
    judged = [beside for beside in against if beside.agrees is not None]
    wrong = [beside for beside in judged if not beside.agrees]
    if wrong:
        return f"differs from {', '.join(b.key for b in wrong)}"
    return "matches" if judged else "no baseline of this model"


def _side(mine: Quantity, interval: Interval | None) -> str:
    """Inside or outside the range, and whether its interval agrees."""
    low, high = mine.record.low, mine.record.high

    def inside(value: float) -> bool:
        return (low is None or value >= low) and (
            high is None or value <= high
        )

    within = inside(mine.record.value)
    side = "inside" if within else "outside"
    ends = (interval.low, interval.high) if interval else ()
    if any(inside(end) != within for end in ends):
        return f"{side}, but its interval reaches over the bound"
    return side
