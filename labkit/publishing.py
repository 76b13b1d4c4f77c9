"""Three results of one machine become a baseline for others, or do not.

Whatever is published was taken with the full protocol, three times, with
medians that agree and a spread that allows to quote them; and nothing in
it tells who took it.
"""

from __future__ import annotations

import contextlib
import getpass
import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from labkit import baselines, documents, records, store
from labkit.errors import LabError
from labkit.observations import noise_of
from labkit.results import Quantity, Result

RUNS = 3
AGREEMENT = 0.10
"""Medians of the runs may differ by this much: max / min - 1."""
FEWEST_WARMUPS = 2
FEWEST_REPEATS = 5
"""The full protocol of the course, and of the report it follows."""
SHARED_NAMES = (
    *("root", "user", "admin", "ubuntu", "localhost"),
    *("runner", "jovyan", "vscode", "codespace"),
)
"""Names that many machines have and that tell of nobody."""
SHORTEST_NAME = 3
PATH = re.compile(
    r"""(?:^|[\s"'(=,;:])  # an address such as https://... is no path
    (?: ~[/\\] | [A-Za-z]:[/\\] | \\\\\w
      | /(?:home|Users|root|tmp|var|opt|usr|mnt|srv|private)\b
      | /[\w.-]+/[\w./-]+ )""",
    re.VERBOSE,
)
MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


def publish(
    runs: Sequence[Result],
    data: Path,
    personal: Sequence[str] | None = None,
) -> Path:
    """Write `data/baselines/<machine>/<NN>.json` from three results.

    `personal` are names that must not be in it, by default this machine's
    and this user's. LabError with every fault if it may not be published,
    and if another baseline has the place already.
    """
    found = faults(runs)
    if found:
        raise LabError(f"Not published: {'; '.join(found)}.")
    document = baselines.to_json(runs[0].lesson, runs)
    names = personal_names() if personal is None else personal
    told = list(personal_strings(document, names))
    if told:
        raise LabError(
            f"Not published: {told[0]!r} tells where or by whom it was"
            " measured; take it out of what the lesson records."
        )
    slug, lesson = baselines.slug(runs[0]), runs[0].lesson
    path = data / "baselines" / slug / f"{lesson}.json"
    _write(path, documents.to_text(document))
    return path


def faults(runs: Sequence[Result]) -> list[str]:
    """Everything that keeps results from being a baseline, in words."""
    if len(runs) != RUNS:
        return [f"{len(runs)} results, where {RUNS} are needed"]
    mixed = list(_mixed(runs))
    if mixed:
        return mixed
    return [
        *(fault for run in runs for fault in _unfit(run)),
        *_disagreements(runs),
    ]


def personal_names() -> list[str]:
    """Names of this machine and of this user."""
    host = platform.node()
    names = [host, host.partition(".")[0]]
    # In some containers a user has neither a name nor a home.
    with contextlib.suppress(OSError, KeyError, ImportError, RuntimeError):
        names += [Path.home().name, getpass.getuser()]
    return names


def personal_strings(value: object, names: Sequence[str]) -> Iterator[str]:
    """Every text in a document that holds a name, a path or an address."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from personal_strings(key, names)
            yield from personal_strings(item, names)
    elif isinstance(value, list):
        for item in value:
            yield from personal_strings(item, names)
    elif isinstance(value, str) and _is_personal(value, names):
        yield value


def _is_personal(text: str, names: Sequence[str]) -> bool:
    if PATH.search(text) or MAIL.search(text):
        return True
    return any(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        for name in names
        if len(name) >= SHORTEST_NAME and name.lower() not in SHARED_NAMES
    )


def _mixed(runs: Sequence[Result]) -> Iterator[str]:
    """Ways in which the results are not three runs of the same thing."""
    first = runs[0]
    for field in ("lesson", "machine", "software", "model", "protocol"):
        if any(getattr(run, field) != getattr(first, field) for run in runs):
            yield f"the results have not the same {field}"
    kinds = [
        [
            (q.record.name, q.record.rule, len(q.samples))
            for q in run.quantities
        ]
        for run in runs
    ]
    if any(each != kinds[0] for each in kinds):
        yield "the results have not the same quantities"
    if len({run.started_utc for run in runs}) < len(runs):
        yield "two of the results are the same run"


def _unfit(run: Result) -> Iterator[str]:
    """Ways in which one result falls short of the protocol."""
    protocol, started = run.protocol, run.started_utc
    if not any(quantity.samples for quantity in run.quantities):
        return  # counts and tokens alone: nothing was timed
    if not run.observations:
        yield f"{started}: medians without the observations behind them"
    planned = {
        (condition, repeat)
        for condition in protocol.conditions
        for repeat in range(1, (protocol.repeats or 0) + 1)
    }
    made = {(seen.condition, seen.repeat) for seen in run.observations}
    if made != planned:
        yield f"{started}: {len(made)} of {len(planned)} runs were made"
    if (protocol.repeats or 0) < FEWEST_REPEATS:
        yield f"{started}: fewer than {FEWEST_REPEATS} repeats"
    if (protocol.warmups or 0) < FEWEST_WARMUPS:
        yield f"{started}: fewer than {FEWEST_WARMUPS} warm-ups"
    if protocol.order != "interleaved":
        yield f"{started}: conditions were not interleaved"
    noise = noise_of(run.observations, run.machine.cores)
    yield from (f"{started}: {reason}" for reason in noise.reasons)


def _disagreements(runs: Sequence[Result]) -> Iterator[str]:
    """Quantities whose value is not the same in all runs.

    Medians of repeated runs and ratios agree within `AGREEMENT`; counts
    and tokens by their own rule. Single readings of a clock are not
    judged: there is no median in them.
    """
    for same in zip(*(run.quantities for run in runs), strict=True):
        record = same[0].record
        if record.rule in ("exact", "close"):
            for other in same[1:]:
                yield from records.problems(record, other.record)
        elif all(map(_repeated, same)):
            values = [quantity.record.value for quantity in same]
            if max(values) > (1 + AGREEMENT) * min(values):
                yield (
                    f"{record.name}: medians from {min(values):.4g} to"
                    f" {max(values):.4g}, more than {AGREEMENT:.0%} apart"
                )


def _repeated(quantity: Quantity) -> bool:
    return bool(quantity.samples) and min(map(len, quantity.samples)) > 1


def _write(path: Path, text: str) -> None:
    """Write a baseline; LabError where another one has its place."""
    try:
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise LabError(
                f"{path} holds another baseline of this machine and software:"
                " remove that one first if the new one is to replace it."
            )
        store.write_text(path, text)
    except OSError as error:
        raise LabError(
            f"{path} could not be written ({error.strerror or error}): check"
            " the disk and its permissions, and publish again."
        ) from error
