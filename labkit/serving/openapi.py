"""GET /openapi.json: what this server takes and sends, in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from flask import Flask, Response

import labkit
from labkit.serving.access import OPEN_PATHS, Access
from labkit.serving.http import answer
from labkit.serving.interface import Engine
from labkit.serving.openapi_schemas import (
    Schema,
    named_event,
    openai_events,
    ref,
    schemas,
)
from labkit.serving.protocol import OPENAI_PREFIX, Limits

Codes = dict[int, tuple[str, ...]]

EVENTS = "text/event-stream"
JSON = "application/json"
BODY_CODES = (
    *("empty_body", "invalid_utf8", "invalid_json", "nested_too_deep"),
    *("number_too_long", "not_finite", "duplicate_key", "not_an_object"),
)
VALUE_CODES = (
    *("unknown_field", "wrong_type", "empty_prompt", "lone_surrogate"),
    *("id_outside_vocabulary", "over_context"),
)
WIRE: Codes = {
    400: ("malformed_http", "incomplete_request", "bad_request"),
    413: ("body_too_large",),
    431: ("headers_too_large",),
    500: ("internal_error",),
    501: ("unsupported_transfer_encoding",),
}
"""Any request may meet these."""
PATHLESS: Codes = {
    400: ("malformed_http", "incomplete_request"),
    431: ("headers_too_large",),
}
"""These of them may come before the path of a request is known."""
GUARD: Codes = {403: ("foreign_host", "foreign_origin")}
MODEL: Codes = {503: ("load_failed", "not_ready")}
"""What needs the model meets these while there is none."""
WORK: Codes = {
    400: (*BODY_CODES, *VALUE_CODES),
    415: ("unsupported_media_type",),
    429: ("queue_full",),
    499: ("cancelled",),
    500: ("generation_failed",),
    503: (*MODEL[503], "shutting_down"),
    504: ("deadline_exceeded",),
}
"""What runs the model meets these."""
NATIVE: Codes = {
    400: (
        *("two_prompts", "missing_prompt", "missing_max_new_tokens"),
        "too_few_tokens",
    )
}
OPENAI: Codes = {
    400: ("invalid_value", "unsupported_value"),
    404: ("model_not_found",),
}
CHAT: Codes = {400: ("no_chat_template",)}
ELSEWHERE: Codes = {404: ("not_found",), 405: ("method_not_allowed",)}
"""Answers to requests that are of no operation."""


@dataclass(frozen=True)
class Operation:
    """One route: what it takes, what it gives, how it refuses.

    `takes` and the values of `gives` name schemas; `gives` is by media type.
    Each event of a stream is as one of `events` says.
    """

    method: str
    path: str
    summary: str
    gives: dict[str, str | None]
    takes: str | None = None
    refuses: tuple[Codes, ...] = ()
    events: tuple[Schema, ...] = ()


OPERATIONS = (
    Operation(
        *("post", "/generate", "A whole answer."),
        {JSON: "GenerateAnswer"},
        "GenerateRequest",
        (WORK, NATIVE),
    ),
    Operation(
        *("post", "/stream", "An answer as server-sent events, by token."),
        {},
        "GenerateRequest",
        (WORK, NATIVE),
        tuple(named_event(n) for n in ("start", "token", "done", "error")),
    ),
    Operation(
        *("get", "/health", "Whether it is ready, and its sizes."),
        {JSON: "Health"},
        refuses=(MODEL,),
    ),
    Operation(
        *("get", "/metrics", "Prometheus' text format."),
        {"text/plain": None},
    ),
    Operation(
        *("get", "/", "A page to try it with."),
        {"text/html": None},
    ),
    Operation(
        *("get", "/openapi.json", "This description."),
        {JSON: "Description"},
        refuses=(MODEL,),
    ),
    Operation(
        *("get", "/v1/models", "The one model there is."),
        {JSON: "Models"},
        refuses=(MODEL,),
    ),
    Operation(
        *("post", "/v1/completions", "A text goes on."),
        {JSON: "Completion"},
        "CompletionRequest",
        (WORK, OPENAI),
        openai_events("CompletionChunk"),
    ),
    Operation(
        *("post", "/v1/chat/completions", "A conversation goes on."),
        {JSON: "Chat"},
        "ChatRequest",
        (WORK, OPENAI, CHAT),
        openai_events("ChatChunk"),
    ),
)


def add_routes(
    app: Flask,
    engine: Engine,
    allowed: Callable[[], Limits],
    access: Access | None,
) -> None:
    """GET /openapi.json, once the model is there."""
    has_key = access is not None and access.key is not None

    @app.get("/openapi.json")
    def openapi() -> Response:
        name = engine.backend().name
        return answer(describe(allowed(), name, has_key=has_key))


def describe(limits: Limits, model: str, *, has_key: bool) -> dict[str, Any]:
    """The description of a server with these limits and this model."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        item = paths.setdefault(operation.path, {})
        item[operation.method] = _operation(operation, limits, has_key)
    components: dict[str, Any] = {
        "schemas": schemas(limits, model)
        | {"Description": {"type": "object", "required": ["openapi"]}},
        "responses": {
            HTTPStatus(status).phrase.replace(" ", ""): _refusal(
                status, codes, "/", limits
            )
            for status, codes in ELSEWHERE.items()
        },
    }
    if has_key:
        components["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer"}
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{model}, served by labkit",
            "version": labkit.__version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Another path is answered like NotFound, and "
            "another method like MethodNotAllowed; see the components.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
    }


def _operation(
    operation: Operation, limits: Limits, has_key: bool
) -> dict[str, Any]:
    needs_key = has_key and operation.path not in OPEN_PATHS
    locked: Codes = {401: ("wrong_key",)} if needs_key else {}
    refused = _merged((WIRE, GUARD, locked, *operation.refuses))
    made: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": f"{operation.method} {operation.path}",
        "responses": {
            "200": _success(operation),
            **{
                str(status): _refusal(status, codes, operation.path, limits)
                for status, codes in sorted(refused.items())
            },
        },
    }
    if needs_key:
        made["security"] = [{"key": []}]
    if operation.takes is not None:
        content = {JSON: {"schema": ref(operation.takes)}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _merged(parts: Iterable[Codes]) -> Codes:
    merged: Codes = {}
    for part in parts:
        for status, codes in part.items():
            before = merged.get(status, ())
            new = (code for code in codes if code not in before)
            merged[status] = (*before, *new)
    return merged


def _success(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {
        kind: {"schema": {"type": "string"} if name is None else ref(name)}
        for kind, name in operation.gives.items()
    }
    if operation.events:
        content[EVENTS] = {"schema": {"anyOf": list(operation.events)}}
    return {"description": operation.summary, "content": content}


def _refusal(
    status: int, codes: tuple[str, ...], path: str, limits: Limits
) -> dict[str, Any]:
    schema = _refused(status, codes, path)
    response: dict[str, Any] = {
        "description": _says(status, limits),
        "content": {JSON: {"schema": schema}},
    }
    headers = _headers(status)
    return response | ({"headers": headers} if headers else {})


def _refused(status: int, codes: tuple[str, ...], path: str) -> Schema:
    """The form is that of the path, where it is known."""
    if not path.startswith(OPENAI_PREFIX):
        return _error("Error", codes)
    form, early = _error("OpenAIError", codes), PATHLESS.get(status)
    return {"anyOf": [form, _error("Error", early)]} if early else form


def _error(form: str, codes: tuple[str, ...]) -> Schema:
    code = {"properties": {"code": {"enum": list(codes)}}}
    return {"allOf": [ref(form), {"properties": {"error": code}}]}


def _says(status: int, limits: Limits) -> str:
    if status == 413:
        return f"The body has more than {limits.max_body_bytes} bytes."
    if status == 499:
        return "Cancelled; whoever asked has gone, so that nobody reads it."
    return f"{HTTPStatus(status).phrase}."


def _headers(status: int) -> dict[str, Any]:
    """The headers that come with a status; 503 has it where it may pass."""
    text: Schema = {"type": "string"}
    seconds: Schema = {"type": "integer", "minimum": 0}
    known: dict[int, dict[str, Any]] = {
        401: {"WWW-Authenticate": {"schema": text, "required": True}},
        405: {"Allow": {"schema": text, "required": True}},
        429: {"Retry-After": {"schema": seconds, "required": True}},
        503: {"Retry-After": {"schema": seconds}},
    }
    return known.get(status, {})
