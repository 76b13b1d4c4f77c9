"""What schemathesis checks here besides its own checks; see `fuzz.py`."""

from __future__ import annotations

import math
from typing import Any

import schemathesis
from schemathesis.core.failures import Failure


@schemathesis.check
def valid_data_accepted(
    ctx: schemathesis.CheckContext,
    response: schemathesis.Response,
    case: schemathesis.Case,
) -> None:
    """Valid data are accepted, but for what a schema cannot say.

    That is: prompt and output fit the context together, no more tokens are
    promised than asked for, and a whole number is written in digits (to JSON
    Schema 1.0 is an integer as well).
    """
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code < 400:
        return
    error = response.json()["error"]
    if response.status_code == 400 and is_beyond_a_schema(error, case.body):
        return
    raise Failure(
        operation=case.operation.label,
        title="Valid data refused",
        message=f"{response.status_code} {error['code']}",
    )


def is_beyond_a_schema(error: dict[str, Any], body: Any) -> bool:
    """Whether a schema cannot say that this body is refused so."""
    if error["code"] == "over_context" or error.get("param") == "min_tokens":
        return True
    number = error["code"] in {"wrong_type", "invalid_value"}
    return number and has_whole_float(body)


def has_whole_float(value: Any) -> bool:
    """Whether there is a number such as 1.0 in it."""
    if isinstance(value, dict):
        return any(map(has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(has_whole_float, value))
    return (
        isinstance(value, float)
        and math.isfinite(value)
        and value.is_integer()
    )
