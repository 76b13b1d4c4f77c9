"""What the observations of `decode.py` say: tables, goals and their causes.

Everything is computed from a `Report`, which holds the raw observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from labkit import documents, stats, tables
from labkit.errors import LabError
from labkit.machine import Machine
from labkit.observations import Observation, noise_of
from labkit.results import Model, Protocol

SCHEMA = "labkit.bench.decode"
VERSION = 1

FP32, BF16 = "labkit FP32", "labkit BF16"
LIBRARY, LLAMA_CPP = "transformers", "llama.cpp"
MACHINE = "machine"
LINEAR, F_LINEAR = "labkit.fused.linear", "F.linear"
"""Ways to multiply a few rows by a matrix."""
BATCHES = (4, 8, 16)
Tokens = tuple[tuple[int, ...], ...]


def in_batch(contender: str, sequences: int) -> str:
    """Name of the condition in which a contender has several sequences."""
    return contender if sequences == 1 else f"{contender}, batch {sequences}"


def matrices(contender: str, rows: int, product: str = LINEAR) -> str:
    """Name of the condition that runs the matrices alone."""
    return f"{contender}, matrices alone, {rows} rows by {product}"


@dataclass(frozen=True)
class Report:
    """One run: what was measured, on what, and every observation.

    The value of an observation has `prefill_s` and `decode_s` of a
    generation, `pass_s` and `bytes_per_s` of the matrices alone, or a
    `machine.Speed`.
    """

    started_utc: str
    machine: Machine
    software: Mapping[str, str]
    model: Model
    protocol: Protocol
    environment: Mapping[str, str]
    """Threading variables that all contenders were started with."""
    prompt_tokens: int
    new_tokens: int
    weight_bytes: Mapping[str, int]
    """Bytes that a step reads of weights, by contender of the course."""
    cache_bytes: Mapping[str, float]
    """The same of one sequence's cache, on average over the steps."""
    tokens: Mapping[str, Tokens]
    """New ids of each sequence, by condition."""
    missing: tuple[str, ...]
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class Goal:
    """One reach. `value` is None where it could not be measured."""

    name: str
    wanted: float
    value: float | None
    cause: str
    """What the run shows about the size of the value."""

    @property
    def reached(self) -> bool:
        """Whether the value is what was wanted, or more."""
        return self.value is not None and self.value >= self.wanted


def to_text(report: Report) -> str:
    """The document of a report, strict JSON."""
    from dataclasses import asdict

    return documents.to_text(
        {"schema": SCHEMA, "version": VERSION, **asdict(report)}
    )


def from_json(document: Mapping[str, Any]) -> Report:
    """The report in a document; LabError that says what is wrong with it."""
    rest = documents.require_schema(document, SCHEMA, VERSION)
    return documents.decode(Report, rest)


def values(report: Report, condition: str, key: str) -> list[float]:
    """One figure of every repeat of a condition, in the order of rounds."""
    return [
        float(seen.value[key])
        for seen in sorted(report.observations, key=lambda s: s.repeat)
        if seen.condition == condition and isinstance(seen.value, Mapping)
    ]


def decode_rates(report: Report, condition: str) -> list[float]:
    """Tokens/s of all sequences together, first tokens not counted.

    The first token of each comes from the prefill.
    """
    made = sum(len(ids) - 1 for ids in report.tokens.get(condition, ()))
    return [made / s for s in values(report, condition, "decode_s")]


def whole_rates(report: Report, condition: str) -> list[float]:
    """New tokens/s of all sequences together, prefill included."""
    made = sum(len(ids) for ids in report.tokens.get(condition, ()))
    prefill = values(report, condition, "prefill_s")
    decode = values(report, condition, "decode_s")
    return [made / (p + d) for p, d in zip(prefill, decode, strict=True)]


def ceilings(
    report: Report, contender: str, sequences: int = 1
) -> list[float]:
    """Tokens/s if reading weights and cache were all that a step does.

    The bandwidth of the same round over the bytes of one step.
    """
    cache = report.cache_bytes[contender] * sequences
    step = report.weight_bytes[contender] + cache
    read = values(report, MACHINE, "read_bytes_per_s")
    return [sequences * speed / step for speed in read]


def paired(above: Sequence[float], below: Sequence[float]) -> float | None:
    """Median over the rounds of the ratio within a round.

    None where one side was not measured; LabError where they have a
    different number of rounds.
    """
    if not above or not below:
        return None
    if len(above) != len(below):
        raise LabError(
            f"{len(above)} rounds cannot be compared with {len(below)}: this"
            " report is not whole, so measure again."
        )
    ratios = [a / b for a, b in zip(above, below, strict=True) if b > 0]
    return stats.median(ratios) if ratios else None


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """Position, from 0, at which two answers part; None if they do not."""
    pairs = enumerate(zip_longest(ours, theirs))
    return next((i for i, (a, b) in pairs if a != b), None)


def same_tokens(report: Report) -> Iterator[tuple[str, int | None]]:
    """Each condition's first sequence against labkit's in FP32.

    All first sequences continue the same prompt.
    """
    ours = report.tokens[FP32][0]
    for condition, rows in report.tokens.items():
        if condition != FP32:
            yield condition, first_difference(ours, rows[0])


# Goals ----------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """Every reach, with what the run shows about it."""
    rates = {name: decode_rates(report, name) for name in report.tokens}
    mine = rates[FP32]
    crowd = in_batch(BF16, 8)
    prefills = (
        values(report, LLAMA_CPP, "prefill_s"),
        values(report, FP32, "prefill_s"),
    )
    step = _step_cause(report)
    return [
        _tokens_goal(report),
        Goal(
            "decode: labkit FP32 / transformers' generate",
            1.5,
            paired(mine, rates[LIBRARY]),
            step,
        ),
        Goal(
            "decode: labkit FP32 / llama.cpp F32",
            1.0,
            paired(mine, rates.get(LLAMA_CPP, [])),
            step,
        ),
        Goal(
            "decode: labkit FP32 / bandwidth ceiling",
            0.6,
            paired(mine, ceilings(report, FP32)),
            step,
        ),
        Goal(
            f"prefill of {report.prompt_tokens}: labkit FP32 / llama.cpp F32",
            1.0,
            paired(*prefills),
            _prefill_cause(report),
        ),
        Goal(
            "decode: labkit BF16 at batch 8 / labkit FP32 at batch 1",
            6.0,
            paired(rates[crowd], mine),
            _crowd_cause(report),
        ),
    ]


def _tokens_goal(report: Report) -> Goal:
    """Of the FP32 contenders, how many give labkit's tokens."""
    others = [n for n in (LIBRARY, LLAMA_CPP) if n in report.tokens]
    found = dict(same_tokens(report))
    agreed = [found[name] is None for name in others]
    return Goal(
        "same tokens: part of the other FP32 contenders that agree",
        1.0,
        sum(agreed) / len(agreed),
        "; ".join(_difference(name, found[name]) for name in others),
    )


def _difference(name: str, position: int | None) -> str:
    if position is None:
        return f"{name}: identical"
    return f"{name}: first difference at new token {position + 1}"


def _step_cause(report: Report) -> str:
    """One decode step: the matrices, and all else."""
    made = report.new_tokens - 1
    step = stats.median(values(report, FP32, "decode_s")) / made
    alone = stats.median(values(report, matrices(FP32, 1), "pass_s"))
    read = report.weight_bytes[FP32] / alone
    able = stats.median(values(report, MACHINE, "read_bytes_per_s"))
    return (
        f"of a step of {step * 1e3:.1f} ms the matrices alone take"
        f" {alone * 1e3:.1f} ms, reading {read / 1e9:.0f} of"
        f" {able / 1e9:.0f} GB/s; norms, RoPE, attention and the calls"
        f" themselves take the other {(step - alone) * 1e3:.1f} ms"
    )


def _prefill_cause(report: Report) -> str:
    whole = stats.median(values(report, FP32, "prefill_s"))
    rows = report.prompt_tokens
    alone = stats.median(values(report, matrices(FP32, rows), "pass_s"))
    return (
        f"of {whole * 1e3:.0f} ms the matrices alone take {alone * 1e3:.0f} ms"
    )


def _crowd_cause(report: Report) -> str:
    made = report.new_tokens - 1
    step = stats.median(values(report, in_batch(BF16, 8), "decode_s")) / made
    one = stats.median(values(report, FP32, "decode_s")) / made
    alone = stats.median(values(report, matrices(BF16, 8), "pass_s"))
    return (
        f"a step for 8 sequences takes {step * 1e3:.1f} ms, its matrices"
        f" alone {alone * 1e3:.1f} ms; a step for one in FP32 takes"
        f" {one * 1e3:.1f} ms, so 6x leaves {one * 8 / 6 * 1e3:.1f} ms"
    )


# Tables ---------------------------------------------------------------------

HEAD = (
    "contender",
    "batch",
    "prefill ms",
    "decode tokens/s",
    "middle half",
    "per sequence",
    "with prefill",
)


def rows(report: Report) -> list[tuple[str, ...]]:
    """The table, its heading first; medians over the rounds."""
    order = sorted(report.tokens, key=lambda name: len(report.tokens[name]))
    made = [_row(report, condition) for condition in order]
    ceiling = ceilings(report, FP32)
    limit = ("reading alone (ceiling, FP32)", "1", "", *_figures(ceiling, 1))
    return [HEAD, *made, (*limit, "")]


def _row(report: Report, condition: str) -> tuple[str, ...]:
    batch = len(report.tokens[condition])
    prefill = stats.median(values(report, condition, "prefill_s")) * 1e3
    return (
        condition.partition(",")[0],
        str(batch),
        f"{prefill:.0f}",
        *_figures(decode_rates(report, condition), batch),
        f"{stats.median(whole_rates(report, condition)):.1f}",
    )


def _figures(rates: Sequence[float], batch: int) -> tuple[str, str, str]:
    """Median, quartiles, and the median of one sequence, in tokens/s."""
    seen = stats.spread(rates)
    return (
        f"{seen.median:.1f}",
        f"{seen.lower:.1f} to {seen.upper:.1f}",
        f"{seen.median / batch:.1f}",
    )


MATRIX_HEAD = (
    "all weight matrices, one row, FP32",
    "ms",
    "GB/s",
    "middle half",
    "of this machine's",
)


def matrix_rows(report: Report) -> list[tuple[str, ...]]:
    """How fast each product reads the weights; medians over the rounds."""
    able = values(report, MACHINE, "read_bytes_per_s")
    made: list[tuple[str, ...]] = [MATRIX_HEAD]
    for product in (F_LINEAR, LINEAR):
        condition = matrices(FP32, 1, product)
        read = values(report, condition, "bytes_per_s")
        seen, share = stats.spread(read), paired(read, able)
        seconds = stats.median(values(report, condition, "pass_s"))
        made.append(
            (
                product,
                f"{seconds * 1e3:.1f}",
                f"{seen.median / 1e9:.1f}",
                f"{seen.lower / 1e9:.1f} to {seen.upper / 1e9:.1f}",
                "" if share is None else f"{share:.0%}",
            )
        )
    return made


def goal_lines(report: Report) -> Iterator[str]:
    """Each goal as one line: reached, missed or not measured, and why."""
    for goal in goals(report):
        if goal.value is None:
            yield f"not measured: {goal.name}"
            continue
        word = "reached" if goal.reached else "missed"
        yield (
            f"{word}: {goal.name}: {goal.value:.2f}"
            f" (wanted {goal.wanted:g}); {goal.cause}"
        )


def token_lines(report: Report) -> Iterator[str]:
    """Where the tokens of other conditions part from labkit's in FP32."""
    for condition, position in same_tokens(report):
        yield _difference(condition, position)


def context_lines(report: Report) -> Iterator[str]:
    """Machine, versions, protocol, what is missing and what disturbed."""
    here, protocol = report.machine, report.protocol
    versions = ", ".join(f"{n} {v}" for n, v in report.software.items())
    yield f"{here.cpu}, {here.cores} cores, {here.system}; {versions}"
    yield (
        f"{report.model.name}; {report.prompt_tokens} tokens in,"
        f" {report.new_tokens} out; {protocol.threads} threads;"
        f" {protocol.repeats} rounds after {protocol.warmups} warm-ups;"
        f" {report.started_utc}"
    )
    yield from report.missing
    noise = noise_of(report.observations, here.cores)
    for reason in noise.reasons:
        yield f"noisy: {reason}"


def as_text(report: Report) -> str:
    """Everything that is printed at the end of a run."""
    return "\n".join(
        [
            *context_lines(report),
            "",
            tables.as_text(rows(report)),
            "",
            tables.as_text(matrix_rows(report)),
            "",
            *token_lines(report),
            "",
            *goal_lines(report),
        ]
    )


def as_markdown(report: Report) -> str:
    """The tables and the goals for a README."""
    bullets: Callable[[str], str] = "- {}".format
    return "\n".join(
        [
            *map(bullets, context_lines(report)),
            "",
            *_markdown_table(rows(report)),
            "",
            *_markdown_table(matrix_rows(report)),
            "",
            *map(bullets, goal_lines(report)),
        ]
    )


def _markdown_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, the first a heading, as the lines of a table."""
    head, *body = lines
    rule = ("---", *("---:" for _ in head[1:]))
    return [_markdown_row(cells) for cells in (head, rule, *body)]


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
