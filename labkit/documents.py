"""JSON documents: read strictly or refused, never half read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from labkit.errors import LabError

T = TypeVar("T")

LONGEST_INTEGER = 30
"""Digits; no count in this course comes near, and 1e300 has 301."""


def read(path: Path) -> dict[str, Any]:
    """The JSON object in a file; LabError, naming the file, for all else."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except LabError as error:
        reason = str(error)
    raise refusal(path, reason)


def refusal(path: Path, reason: str) -> LabError:
    """The error for a file that is not used."""
    return LabError(
        f"{path} was not read: {reason.rstrip('.')}. Put the original back,"
        " or move the file away."
    )


def parse(text: str) -> dict[str, Any]:
    """The JSON object in a text.

    LabError for text that is not JSON, for NaN, infinity and numbers out
    of range, for a name that occurs twice, and for anything but an object.
    """
    try:
        document = json.loads(
            text,
            parse_constant=_refuse_number,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        raise LabError(
            f"it is not JSON (line {error.lineno}: {error.msg})"
        ) from error
    except RecursionError as error:
        raise LabError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise LabError("it is not a JSON object")
    return document


def require_schema(
    document: Mapping[str, Any], schema: str, version: int
) -> dict[str, Any]:
    """The document without its schema; LabError if it has another."""
    rest = dict(document)
    found, number = rest.pop("schema", None), rest.pop("version", None)
    if found != schema:
        raise LabError(f"it is not a {schema} document")
    if type(number) is not int or number != version:
        raise LabError(
            f"it has version {number!r} of the schema {schema}, and this"
            f" course reads version {version}"
        )
    return rest


def decode(kind: type[T], document: Mapping[str, Any]) -> T:
    """The dataclass that a document holds.

    Types are not converted, every field without a default must be there
    and no other may be; LabError names the first field that is wrong.
    """
    from pydantic import TypeAdapter, ValidationError

    text = json.dumps(document)
    try:
        return TypeAdapter(kind).validate_json(
            text, strict=True, extra="forbid"
        )
    except ValidationError as error:
        raise LabError(_fault(error.errors()[0])) from error


def to_text(document: Mapping[str, Any]) -> str:
    """The text of a document's file; LabError for what JSON cannot hold."""
    try:
        return json.dumps(document, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise LabError(
            f"This cannot be saved as JSON: {error}. Keep plain numbers,"
            " texts and lists."
        ) from error


def _fault(first: Mapping[str, Any]) -> str:
    """One of pydantic's errors in the words of this course."""
    *parents, last = first["loc"] or ("document",)
    parent = ".".join(map(str, parents)) or "it"
    kind = first["type"]
    if kind in ("missing", "missing_argument"):
        return f"{parent} lacks {last!r}"
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{parent} has an unknown field {last!r}"
    if kind == "json_invalid":
        # Its line and column are those of `decode`'s own text.
        return "it holds a text that is not Unicode, or is nested too deeply"
    place = ".".join(map(str, (*parents, last)))
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def _refuse_number(text: str) -> float:
    raise LabError(f"{text[:20]} is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _integer(text: str) -> float:
    if len(text) > LONGEST_INTEGER:
        return _refuse_number(text)
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LabError(f"{twice!r} occurs twice in one object")
    return made
