"""A fresh run of a cell beside its committed outputs.

Cell tags: `check-exact` makes every printed or shown text count as well;
`raises-exception` expects the committed kind of error.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from labkit.records import MIME, Record, from_json, problems

Cell: TypeAlias = Any
Output: TypeAlias = Any

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def differences(committed: Cell, fresh: Cell) -> list[str]:
    """What is wrong with a fresh, normalised run of a code cell.

    One sentence for each fault, each starting with the cell's id; none
    when the outputs are of the same kinds, the records agree by their
    rules and nothing was written to stderr.
    """
    found = _complaints(fresh)
    before, now = _kinds(committed), _kinds(fresh)
    if before != now:
        found.append(f"outputs were {before}, now {now}")
    elif "check-exact" in committed.metadata.get("tags", []):
        was, is_ = _texts(committed), _texts(fresh)
        if was != is_:
            found.append(f"text was {was!r}, now {is_!r}")
    found += _record_problems(_records(committed), _records(fresh))
    return [f"{committed.id}: {fault}" for fault in found]


def _complaints(fresh: Cell) -> list[str]:
    """Errors that no tag allows, and anything on stderr."""
    allowed = "raises-exception" in fresh.metadata.get("tags", [])
    found = []
    for output in fresh.outputs:
        if output.output_type == "error" and not allowed:
            last = _ANSI.sub("", "\n".join(output.traceback))[-1500:]
            found.append(f"raised {output.ename}: {output.evalue}\n{last}")
        if output.output_type == "stream" and output.name == "stderr":
            found.append(f"wrote to stderr: {output.text.strip()[:500]}")
    return found


def _kinds(cell: Cell) -> list[str]:
    """Stream names, error types and mime types, in order."""
    return [_kind(output) for output in cell.outputs]


def _kind(output: Output) -> str:
    if output.output_type == "stream":
        return str(output.name)
    if output.output_type == "error":
        return str(output.ename)
    return f"{output.output_type}({', '.join(sorted(output.data))})"


def _texts(cell: Cell) -> list[str]:
    """What is printed or shown as text; records have their own rules."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append(output.text)
        elif output.output_type != "error" and MIME not in output.data:
            found += [
                str(data)
                for kind, data in sorted(output.data.items())
                if kind.startswith("text/")
            ]
    return [_ANSI.sub("", text) for text in found]


def _records(cell: Cell) -> list[Record]:
    return [
        from_json(output.data[MIME])
        for output in cell.outputs
        if MIME in output.get("data", {})
    ]


def _record_problems(before: list[Record], now: list[Record]) -> list[str]:
    was, is_ = [r.name for r in before], [r.name for r in now]
    if was != is_:
        return [f"recorded {was}, now {is_}"]
    pairs = zip(before, now, strict=True)
    return [text for a, b in pairs for text in problems(a, b)]
