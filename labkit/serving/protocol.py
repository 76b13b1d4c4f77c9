"""What a request may hold, and how a refusal reads: pure functions.

Every function here either returns a value that needs no further checks or
raises `Refusal`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from labkit.generation import Sampling

MAX_INTEGER_DIGITS = 100
MAX_ECHO_CHARACTERS = 40
OPENAI_PREFIX = "/v1/"
GENERATE_FIELDS = ("prompt", "prompt_ids", "max_new_tokens")


class Refusal(Exception):
    """An answer that is not the one asked for, as the client will read it.

    `status` is the HTTP status, `code` a stable name for programs, and
    `message` one sentence for people that says what to send instead.
    `retry_after_s` is set where the same request may succeed later, and
    `param` names the field of the body that is wrong, where one is known.
    """

    # Not a frozen dataclass: Python itself assigns __traceback__ to an
    # exception that leaves a context manager, which a frozen one forbids.
    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after_s: int | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.param = param

    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message}}


ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


def openai_error(refusal: Refusal) -> dict[str, Any]:
    """A refusal in the form of OpenAI's API."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": refusal.message,
            "type": ERROR_TYPES.get(refusal.status, kind),
            "param": refusal.param,
            "code": refusal.code,
        }
    }


def error_document(refusal: Refusal, path: str) -> dict[str, Any]:
    """The body of a refusal of a request to `path`."""
    if path.startswith(OPENAI_PREFIX):
        return openai_error(refusal)
    return refusal.body()


@dataclass(frozen=True)
class Limits:
    """The largest request that is let in.

    `context` is in tokens, prompt and output together; ids run from 0 to
    `vocabulary` - 1. The defaults are those of SmolLM2-135M.
    """

    max_body_bytes: int = 1024 * 1024
    context: int = 8192
    vocabulary: int = 49152

    def within(self, context: int, vocabulary: int) -> Limits:
        """These limits, lowered to what a model can take."""
        return Limits(
            self.max_body_bytes,
            min(self.context, context),
            min(self.vocabulary, vocabulary),
        )


@dataclass(frozen=True)
class GenerateRequest:
    """A checked request: at least one prompt id, at least one new token.

    Greedy, unless `sampling` says how to draw. With `stop_at_end` an id that
    ends an answer ends it, as its last token; without, none is chosen, so
    that the answer has exactly `max_new_tokens`.
    """

    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling | None = None
    stop_at_end: bool = False


def to_json(document: dict[str, Any]) -> bytes:
    """The bytes of an answer: one JSON object in ASCII and a line end."""
    return json.dumps(document, allow_nan=False).encode("ascii") + b"\n"


def shown(text: str) -> str:
    """`text` quoted and cut, so that an answer never repeats a large input."""
    if len(text) <= MAX_ECHO_CHARACTERS:
        return repr(text)
    return repr(text[:MAX_ECHO_CHARACTERS]) + "..."


def body_too_large(max_body_bytes: int) -> Refusal:
    return Refusal(
        413,
        "body_too_large",
        f"The body may hold at most {max_body_bytes} bytes; "
        "send a shorter prompt.",
    )


def parse_json(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`, by RFC 8259 and stricter where it is vague.

    Refused: an empty body, bytes that are not UTF-8, text that is not JSON,
    NaN and infinities, a name given twice, integers of more than
    MAX_INTEGER_DIGITS digits, nesting deeper than the parser goes, and any
    value that is not an object.
    """
    if not raw.strip():
        raise _bad("empty_body", "The body is empty; send a JSON object.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(
            "invalid_utf8",
            f"Byte {error.start} of the body is not UTF-8; "
            "send JSON encoded as UTF-8.",
        ) from None
    document = _load_json(text)
    if not isinstance(document, dict):
        raise _bad(
            "not_an_object",
            f"The body is {kind_of(document)}; send a JSON object.",
        )
    return document


def parse_generate(
    body: dict[str, Any],
    encode: Callable[[str], list[int]],
    limits: Limits,
) -> GenerateRequest:
    """Check the body of POST /generate.

    `body` is {"prompt": str, "max_new_tokens": int}, or "prompt_ids" (a list
    of int) in place of "prompt". `encode` turns text into ids and is called
    only when everything that needs no ids has passed.
    """
    _refuse_unknown_fields(body)
    if "prompt" in body and "prompt_ids" in body:
        raise _bad(
            "two_prompts", "Send either prompt or prompt_ids, not both."
        )
    max_new_tokens = _parse_count(body, limits)
    if "prompt" in body:
        prompt_ids = encode(check_text(body["prompt"], "prompt"))
    elif "prompt_ids" in body:
        prompt_ids = check_ids(body["prompt_ids"], limits, "prompt_ids")
    else:
        raise _bad(
            "missing_prompt", "Send a prompt (text) or prompt_ids (token ids)."
        )
    check_room(len(prompt_ids), max_new_tokens, limits)
    return GenerateRequest(tuple(prompt_ids), max_new_tokens)


def _bad(code: str, message: str, name: str | None = None) -> Refusal:
    return Refusal(400, code, message, param=name)


def _load_json(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_int=_parse_integer,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise _bad(
            "invalid_json",
            f"The body is not JSON from line {error.lineno}, column "
            f"{error.colno} on; send one JSON object.",
        ) from None
    except RecursionError:
        raise _bad(
            "nested_too_deep",
            "The body is nested too deeply; send a flat JSON object.",
        ) from None


def _parse_integer(digits: str) -> int:
    # Reading a decimal integer takes time quadratic in its digits, and
    # Python refuses 4,300 of them with an error of its own.
    if len(digits) > MAX_INTEGER_DIGITS:
        raise _bad(
            "number_too_long",
            f"A number has {len(digits)} digits; "
            f"send at most {MAX_INTEGER_DIGITS}.",
        )
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise _bad("not_finite", f"{name} is not JSON; send a finite number.")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise _bad(
                "duplicate_key",
                f"The name {shown(name)} is given twice; send it once.",
            )
        document[name] = value
    return document


def kind_of(value: Any) -> str:
    """What JSON calls a value of this type, with its article."""
    kinds = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a whole number",
        float: "a number with a point or an exponent",
        type(None): "null",
    }
    return kinds[type(value)]


def _refuse_unknown_fields(body: dict[str, Any]) -> None:
    for name in body:
        if name not in GENERATE_FIELDS:
            raise _bad(
                "unknown_field",
                f"The field {shown(name)} is unknown; send only "
                f"{', '.join(GENERATE_FIELDS)}.",
            )


def _parse_count(body: dict[str, Any], limits: Limits) -> int:
    if "max_new_tokens" not in body:
        raise _bad(
            "missing_max_new_tokens",
            "Send max_new_tokens, a whole number of at least 1.",
        )
    count = body["max_new_tokens"]
    # A boolean is an int to isinstance, but not to the reader of JSON.
    if type(count) is not int:
        raise _bad(
            "wrong_type",
            f"max_new_tokens is {kind_of(count)}; send a whole number, "
            "written in digits only.",
        )
    if count < 1:
        raise _bad(
            "too_few_tokens",
            f"max_new_tokens is {count}; send at least 1.",
        )
    if count >= limits.context:
        raise _bad(
            "over_context",
            f"max_new_tokens is {count}; prompt and output together have "
            f"room for {limits.context} tokens, so send a smaller number.",
        )
    return count


def check_text(text: Any, name: str, *, may_be_empty: bool = False) -> str:
    """A text that was sent as `name`, if it is one."""
    if not isinstance(text, str):
        raise _bad(
            "wrong_type", f"{name} is {kind_of(text)}; send a string.", name
        )
    if not text and not may_be_empty:
        raise _bad("empty_prompt", "The prompt is empty; send some text.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad(
            "lone_surrogate",
            f"Character {error.start} of {name} is half of a surrogate "
            "pair; send both halves or neither.",
            name,
        ) from None
    return text


def check_ids(ids: Any, limits: Limits, name: str) -> list[int]:
    """Token ids that were sent as `name`, if they are some."""
    if not isinstance(ids, list):
        raise _bad(
            "wrong_type",
            f"{name} is {kind_of(ids)}; send an array of token ids.",
            name,
        )
    for position, token_id in enumerate(ids):
        if type(token_id) is not int:
            raise _bad(
                "wrong_type",
                f"{name}[{position}] is {kind_of(token_id)}; "
                "send a whole number.",
                name,
            )
        if not 0 <= token_id < limits.vocabulary:
            raise _bad(
                "id_outside_vocabulary",
                f"{name}[{position}] is {token_id}; "
                f"send ids from 0 to {limits.vocabulary - 1}.",
                name,
            )
    return ids


def check_room(prompt_tokens: int, new_tokens: int, limits: Limits) -> None:
    """Refuse what has no token, or more than there is room for."""
    if not prompt_tokens:
        raise _bad("empty_prompt", "Send a prompt of at least one token.")
    if new_tokens >= limits.context:
        raise _bad(
            "over_context",
            f"{new_tokens} new tokens are asked for; prompt and output "
            f"together have room for {limits.context}, so ask for fewer.",
        )
    if prompt_tokens + new_tokens > limits.context:
        raise _bad(
            "over_context",
            f"{prompt_tokens} prompt tokens and {new_tokens} new ones are "
            f"more than the {limits.context} there is room for; "
            "send a shorter prompt or a smaller max_new_tokens.",
        )
