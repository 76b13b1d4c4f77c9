"""Three results of one machine become a baseline for others, or do not.

Whatever is published was taken with the full protocol, three times, with
medians that agree and a spread that allows to quote them; and nothing in
it tells who took it.
"""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from labkit import baselines, documents, records, store
from labkit.errors import LabError
from labkit.machine import Speed
from labkit.observations import noise_of
from labkit.results import Quantity, Result, times_more

RUNS = 3
AGREEMENT = 0.10
"""Medians of the runs may differ by this part of the smallest."""
READINGS = 0.30
"""And so may times and rates that each run read once."""
CLOCKED = ("s", "ms", "tokens/s", "requests/s")
"""Units of such readings; microseconds read once agree with nothing."""
FEWEST_WARMUPS = 2
FEWEST_REPEATS = 5
"""The full protocol of the course, and of the report it follows."""
SHARED_NAMES = (
    *("root", "user", "admin", "ubuntu", "localhost"),
    *("runner", "jovyan", "vscode", "codespace"),
    *("server", "client", "machine", "model"),
)
"""Names that many machines have and that tell of nobody."""
SHORTEST_NAME = 2
WEB = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w.~%+@=&?#/-]*)?", re.I)
"""An address on the web, whose own slashes make no path of a machine."""
FOLDERS = "(?:home|Users|root|tmp|var|opt|usr|mnt|srv|private)"
PATH = re.compile(
    rf"""\bfile:(?=\S)
    | /{FOLDERS}/  # wherever it stands: -I/home/..., vscode-remote://...
    | (?<![\w.~/)\]}}%-])/(?: {FOLDERS}\b | [\w.-]+/[\w./-]+ )
    | ~(?:[A-Za-z_][\w.-]*)?[/\\]
    | (?<!\w)[A-Za-z]:[/\\]
    | [\w.:\\]\\[\w.]""",
    re.VERBOSE | re.IGNORECASE,
)
DIGEST = re.compile(r"(?<!\w)[0-9a-f]{32,}(?!\w)", re.IGNORECASE)
"""A checksum, in whose letters a short name may stand by chance."""
MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
LOCAL_NAME = re.compile(
    r"\w\.(?:local|localdomain|lan|internal|intranet|home\.arpa)\b",
    re.IGNORECASE,
)
IP = re.compile(
    r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)"
    r"|(?<![\w:.])[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*(?!\w)",
    re.IGNORECASE,
)
"""What may be an address of IPv4 or IPv6; `ipaddress` decides."""
SHOWN = 40
"""Characters of a value in a refusal."""


def publish(
    runs: Sequence[Result],
    data: Path,
    personal: Sequence[str] | None = None,
    speed: Speed | None = None,
) -> Path:
    """Write `data/baselines/<machine>/<NN>.json` from three results.

    The machine's speed, where it is given, is kept beside it.

    `personal` are names that must not be in it, by default this machine's
    and this user's. LabError with every fault if it may not be published,
    and if another baseline has the place already.
    """
    found = faults(runs)
    if found:
        raise LabError("\n- ".join(["Not published:", *found]))
    document = baselines.to_json(runs[0].lesson, runs)
    names = personal_names() if personal is None else personal
    common = _common_words(runs[0])
    names = [name for name in names if name.lower() not in common]
    told = dict.fromkeys(personal_strings(document, names))
    if told:
        raise LabError(
            "\n- ".join(
                [
                    "Not published, as these texts tell where or by whom it"
                    " was measured; take them out of what the lesson"
                    " records:",
                    *map(repr, told),
                ]
            )
        )
    slug, lesson = baselines.slug(runs[0]), runs[0].lesson
    path = data / "baselines" / slug / f"{lesson}.json"
    _write(path, documents.to_text(document))
    if speed is not None:
        _keep(path.with_name(baselines.SPEED_FILE), speed)
    return path


def _keep(path: Path, speed: Speed) -> None:
    """Write a machine's speed where there is none yet."""
    if not path.exists():
        _write(path, documents.to_text(baselines.speed_to_json(speed)))


def faults(runs: Sequence[Result]) -> list[str]:
    """Everything that keeps results from being a baseline, in words."""
    if len(runs) != RUNS:
        missing = RUNS - len(runs)
        more = f": run it {times_more(missing)}" if missing > 0 else ""
        return [f"{len(runs)} results, where {RUNS} are needed{more}"]
    mixed = list(_mixed(runs))
    if mixed:
        return mixed
    by_fault: dict[str, list[Result]] = {}
    for run in runs:
        for fault in _unfit(run):
            by_fault.setdefault(fault, []).append(run)
    return [
        *(f"{_named(of)}: {fault}" for fault, of in by_fault.items()),
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
    if PATH.search(WEB.sub(" ", text)) or MAIL.search(text):
        return True
    if LOCAL_NAME.search(text) or any(map(_is_ip, IP.findall(text))):
        return True
    words = DIGEST.sub(" ", text)
    return any(
        _named_in(name, words)
        for name in names
        if len(name) >= SHORTEST_NAME and name.lower() not in SHARED_NAMES
    )


def _named_in(name: str, text: str) -> bool:
    """Whether a name stands in a text, alone or as in `ada_notes`, `ada2`."""
    more = r"[^\W_]" if name[-1].isdigit() else r"[^\W\d_]"
    pattern = rf"(?<![^\W\d_]){re.escape(name)}(?!{more})"
    return bool(re.search(pattern, text, re.IGNORECASE))


def _common_words(run: Result) -> set[str]:
    """What every such result says: as a name it tells of nobody.

    Words of the machine's kind, of its software, and of the lesson's own
    quantities and conditions.
    """
    here = run.machine
    said = " ".join(
        (
            *(here.cpu, here.system, here.architecture),
            *run.software,
            *run.protocol.conditions,
            *(quantity.record.name for quantity in run.quantities),
        )
    )
    return set(re.findall(r"[^\W_]+", said.lower()))


def _is_ip(text: str) -> bool:
    """Whether a text is an IP address, a full stop or colon after it."""
    for candidate in (text, text.rstrip(".:")):
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(candidate)
            return any(map(str.isalnum, candidate))
    return False


def _named(runs: Sequence[Result]) -> str:
    return ", ".join(run.started_utc for run in runs)


def _mixed(runs: Sequence[Result]) -> Iterator[str]:
    """Ways in which the results are not three runs of the same thing."""
    whole = [asdict(replace(run, observations=())) for run in runs]
    for name in ("machine", "software", "model", "protocol"):
        parts = [each[name] for each in whole]
        for key in dict.fromkeys(key for part in parts for key in part):
            values = [part.get(key) for part in parts]
            yield from _differing(runs, f"{name}: {key}", values)
    yield from _differing(runs, "lesson", [run.lesson for run in runs])
    yield from _other_quantities(runs)
    if len({run.started_utc for run in runs}) < len(runs):
        yield "two of the results are the same run"


def _differing(
    runs: Sequence[Result], name: str, values: Sequence[object]
) -> Iterator[str]:
    """The values of a field and the runs that have them, if they differ."""
    having: dict[str, list[Result]] = {}
    for run, value in zip(runs, values, strict=True):
        having.setdefault(repr(value), []).append(run)
    if len(having) == 1:
        return
    # Long values are cut to where they begin to differ.
    columns = enumerate(zip(*having, strict=False))
    differs = (place for place, each in columns if len(set(each)) > 1)
    start = max(0, next(differs, 0) - SHOWN // 2)
    told = (
        f"{'...' if start else ''}{text[start : start + SHOWN]}"
        f"{'...' if len(text) > start + SHOWN else ''} in {_named(of)}"
        for text, of in having.items()
    )
    yield f"the results have not the same {name} is {', '.join(told)}"


def _other_quantities(runs: Sequence[Result]) -> Iterator[str]:
    """Quantities that are not in every run, or not kept alike."""
    kinds = [
        [
            (q.record.name, q.record.rule, len(q.samples))
            for q in run.quantities
        ]
        for run in runs
    ]
    for kind in dict.fromkeys(kind for each in kinds for kind in each):
        lacking = [
            run
            for run, each in zip(runs, kinds, strict=True)
            if kind not in each
        ]
        if lacking:
            name, rule, samples = kind
            yield (
                "the results have not the same quantities:"
                f" {name} ({rule}, {samples} samples) is not in"
                f" {_named(lacking)}"
            )
            return
    if any(each != kinds[0] for each in kinds):
        yield "the results have not the same quantities in the same order"


def _unfit(run: Result) -> Iterator[str]:
    """Ways in which one result falls short of the protocol."""
    protocol = run.protocol
    yield from noise_of(run.observations, run.machine.cores).reasons
    if not any(quantity.samples for quantity in run.quantities):
        return  # counts, tokens and single readings alone
    if not run.observations:
        yield "medians without the observations behind them"
    planned = {
        (condition, repeat)
        for condition in protocol.conditions
        for repeat in range(1, (protocol.repeats or 0) + 1)
    }
    made = {(seen.condition, seen.repeat) for seen in run.observations}
    if made != planned:
        yield f"{len(made)} of {len(planned)} runs were made"
    if (protocol.repeats or 0) < FEWEST_REPEATS:
        yield f"fewer than {FEWEST_REPEATS} repeats"
    if (protocol.warmups or 0) < FEWEST_WARMUPS:
        yield f"fewer than {FEWEST_WARMUPS} warm-ups"
    if protocol.order != "interleaved":
        yield "conditions were not interleaved"


def _disagreements(runs: Sequence[Result]) -> Iterator[str]:
    """Quantities whose value is not the same in all runs.

    Medians of repeated runs, and ratios of them, agree within `AGREEMENT`;
    times and rates that a run read once, within `READINGS`: there is no
    median in them. Counts and tokens agree by their own rule. Other single
    figures (bytes, shares, ratios of single readings) are not judged here.
    """
    for same in zip(*(run.quantities for run in runs), strict=True):
        record = same[0].record
        if record.rule in ("exact", "close"):
            for run, other in zip(runs[1:], same[1:], strict=True):
                for fault in records.problems(record, other.record):
                    yield f"{fault} ({_named([runs[0], run])})"
        elif all(map(_repeated, same)):
            yield from _apart(runs, same, "medians", AGREEMENT)
        elif record.rule == "info" and record.unit in CLOCKED:
            yield from _apart(runs, same, "readings", READINGS)


def _apart(
    runs: Sequence[Result],
    same: Sequence[Quantity],
    what: str,
    limit: float,
) -> Iterator[str]:
    """The lowest and highest value, if they lie too far from each other."""
    values = [quantity.record.value for quantity in same]
    if not all(map(records.is_number, values)):
        return
    low, high = min(values), max(values)
    if high - low > limit * min(map(abs, values)):
        lowest, highest = (runs[values.index(v)] for v in (low, high))
        yield (
            f"{same[0].record.name}: {what} from {low:.4g}"
            f" ({lowest.started_utc}) to {high:.4g}"
            f" ({highest.started_utc}), more than {limit:.0%} apart"
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
