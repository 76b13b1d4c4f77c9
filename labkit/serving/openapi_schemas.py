"""JSON Schemas of everything that a server takes and sends.

They state what the code checks, no more and no less, as far as a schema can:
that prompt and output fit the context together, and that a text has no half
of a surrogate pair, it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from labkit.serving.openai_protocol import (
    IGNORED,
    MAX_MESSAGES,
    MAX_STOP_CHARACTERS,
    MAX_STOPS,
    NEUTRAL,
    ROLES,
)
from labkit.serving.protocol import Limits

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 1}
WHOLE: Schema = {"type": "integer", "minimum": 0}
SECONDS: Schema = {"type": "number", "minimum": 0}
NANOSECONDS: Schema = {
    "type": "integer",
    "minimum": 0,
    "description": "On the server's own clock.",
}
REASON: Schema = {"enum": ["length", "stop"]}
ENDINGS: Schema = {
    "enum": [
        *("cancelled", "deadline_exceeded", "generation_failed"),
        "shutting_down",
    ]
}
"""How a stream may fail that has begun."""
FALSY: list[Any] = [None, False, 0, "", [], {}]


def ref(name: str) -> Schema:
    """A reference to one of `schemas`."""
    return {"$ref": f"#/components/schemas/{name}"}


def closed(required: Schema, optional: Schema | None = None) -> Schema:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def or_null(schema: Schema) -> Schema:
    """The same, or null, which is as good as leaving a field out."""
    return {"anyOf": [schema, {"type": "null"}]}


def named_event(name: str) -> Schema:
    """An event of this name; its data are JSON."""
    return _event(name, _json(ref(f"{name.capitalize()}Event")))


def openai_events(chunk: str) -> tuple[Schema, ...]:
    """The events of OpenAI's streams: chunks or an error, and the end."""
    data = _json({"anyOf": [ref(chunk), ref("OpenAIError")]})
    return _event("message", data), _event("message", {"const": "[DONE]"})


def _event(name: str, data: Schema) -> Schema:
    """One event, as HTML's standard names its parts.

    Before its version 3.2 OpenAPI has no word for the events of a stream;
    its tools take the schema of a stream for that of each event.
    """
    return closed({"event": {"const": name}, "data": data})


def _json(schema: Schema) -> Schema:
    return {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": schema,
    }


def schemas(limits: Limits, model: str) -> dict[str, Schema]:
    """Every named schema, for a server with these limits and this model."""
    return (
        _generate(limits)
        | _events(model, limits)
        | _openai_requests(limits, model)
        | _openai_answers(model, limits)
        | _errors()
        | {"Health": _health(model)}
    )


def _token_id(limits: Limits) -> Schema:
    return WHOLE | {"maximum": limits.vocabulary - 1}


def _token_ids(limits: Limits) -> Schema:
    return {
        "type": "array",
        "items": _token_id(limits),
        "minItems": 1,
        "maxItems": limits.context - 1,
    }


def _new_tokens(limits: Limits) -> Schema:
    return COUNT | {"maximum": limits.context - 1}


def _health(model: str) -> Schema:
    sizes: Schema = {"context": COUNT, "vocabulary": COUNT}
    fields = {"status": {"const": "ok"}, "model": {"const": model}, **sizes}
    return closed(fields) | {
        "additionalProperties": {"type": ["string", "integer"]},
        "description": "What is not listed says how the model is run.",
    }


def _generate(limits: Limits) -> dict[str, Schema]:
    count = {"max_new_tokens": _new_tokens(limits)}
    by_text = closed({"prompt": TEXT | {"minLength": 1}, **count})
    by_ids = closed({"prompt_ids": _token_ids(limits), **count})
    answer = closed(
        {
            "text": TEXT,
            "ids": {"type": "array", "items": _token_id(limits)},
            "prompt_tokens": COUNT,
            "new_tokens": WHOLE,
            "queue_seconds": SECONDS,
            "seconds": SECONDS,
        }
    )
    return {
        "GenerateByText": by_text,
        "GenerateByIds": by_ids,
        "GenerateRequest": {
            "oneOf": [ref("GenerateByText"), ref("GenerateByIds")],
            "description": "Prompt and output together have room for "
            f"{limits.context} tokens.",
        },
        "GenerateAnswer": answer,
    }


def _events(model: str, limits: Limits) -> dict[str, Schema]:
    """The data of the events of POST /stream."""
    at = {"time_ns": NANOSECONDS}
    return {
        "StartEvent": closed(
            {
                "model": {"const": model},
                "prompt_tokens": COUNT,
                "queued_ns": NANOSECONDS,
                "start_ns": NANOSECONDS,
            }
        ),
        "TokenEvent": closed(
            {"index": WHOLE, "id": _token_id(limits), "text": TEXT, **at}
        ),
        "DoneEvent": closed({"reason": REASON, "new_tokens": WHOLE, **at}),
        "ErrorEvent": closed({"code": ENDINGS, "message": TEXT, **at}),
    }


def _openai_requests(limits: Limits, model: str) -> dict[str, Schema]:
    text = TEXT | {"minLength": 1}
    ids = _token_ids(limits)
    one = {"type": "array", "minItems": 1, "maxItems": 1}
    prompt = {
        "anyOf": [text, ids, *(one | {"items": each} for each in (text, ids))]
    }
    messages = {
        "type": "array",
        "items": ref("Message"),
        "minItems": 1,
        "maxItems": MAX_MESSAGES,
    }
    common = _common(limits, model)
    # The older name is checked, but obeyed only where the newer is missing.
    limit = {
        "max_completion_tokens": common["max_tokens"],
        "max_tokens": or_null(COUNT),
    }
    return {
        "CompletionRequest": _asked({"prompt": prompt}, common),
        "ChatRequest": _asked({"messages": messages}, common | limit),
        "Message": _message(),
    }


def _asked(required: Schema, optional: Schema) -> Schema:
    return closed(required, optional) | {
        "additionalProperties": {"type": "null"},
        "description": "A field that is not listed may be null only.",
        **_with_min_tokens(),
    }


def _with_min_tokens() -> Schema:
    """More than none are promised only where nothing ends an answer."""
    some: Schema = {"type": "integer", "minimum": 1}
    return {
        "if": {"properties": {"min_tokens": some}, "required": ["min_tokens"]},
        "then": {
            "properties": {
                "ignore_eos": {"const": True},
                "stop": {"enum": [None, []]},
            },
            "required": ["ignore_eos"],
        },
    }


def _common(limits: Limits, model: str) -> Schema:
    """The optional fields of both of OpenAI's requests."""
    flag = or_null({"type": "boolean"})
    stop = TEXT | {"minLength": 1, "maxLength": MAX_STOP_CHARACTERS}
    stops = {"type": "array", "items": stop, "maxItems": MAX_STOPS}
    options = {"include_usage": flag, "continuous_usage_stats": flag}
    seed = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
    obeyed = {
        "model": {"const": model},
        "max_tokens": or_null(_new_tokens(limits)),
        "temperature": or_null(_number(2)),
        "top_p": or_null(_number(1)),
        "seed": or_null(seed),
        "stop": {"anyOf": [stop, stops, {"type": "null"}]},
        "stream": flag,
        "stream_options": or_null({"type": "object", "properties": options}),
        "ignore_eos": flag,
        "min_tokens": or_null(WHOLE | {"maximum": limits.context - 1}),
        "return_token_ids": flag,
    }
    neutral = {n: {"enum": [None, *v]} for n, v in NEUTRAL.items()}
    ignored: Schema = {
        name: {"description": "Changes nothing."} for name in sorted(IGNORED)
    }
    return obeyed | neutral | ignored


def _number(largest: int) -> Schema:
    return {"type": "number", "minimum": 0, "maximum": largest}


def _message() -> Schema:
    part = {
        "type": "object",
        "properties": {"type": {"const": "text"}, "text": TEXT},
        "required": ["type", "text"],
    }
    content = {"anyOf": [TEXT, {"type": "array", "items": part}]}
    fields: Schema = {"role": {"enum": list(ROLES)}, "content": content}
    return closed(fields, {"name": {}}) | {
        "additionalProperties": {"enum": FALSY},
        "description": "A field that is not listed may be empty only.",
    }


def _openai_answers(model: str, limits: Limits) -> dict[str, Schema]:
    ids: Schema = {"type": "array", "items": _token_id(limits)}
    text = _Form("text_completion", "cmpl", model, ids)
    chat = _Form("chat.completion", "chatcmpl", model, ids)
    message = closed({"role": {"const": "assistant"}, "content": TEXT})
    delta = closed({"content": TEXT}, {"role": {"const": "assistant"}})
    listed = closed(
        {
            "id": {"const": model},
            "object": {"const": "model"},
            "created": WHOLE,
            "owned_by": TEXT,
        }
    )
    return {
        "Models": closed(
            {
                "object": {"const": "list"},
                "data": {"type": "array", "items": listed, "minItems": 1},
            }
        ),
        "Usage": closed(
            {
                "prompt_tokens": COUNT,
                "completion_tokens": WHOLE,
                "total_tokens": COUNT,
            }
        ),
        "Completion": _whole(text, {"text": TEXT}),
        "CompletionChunk": _chunk(text, {"text": TEXT}),
        "Chat": _whole(chat, {"message": message}),
        "ChatChunk": _chunk(
            replace(chat, kind="chat.completion.chunk"), {"delta": delta}
        ),
    }


@dataclass(frozen=True)
class _Form:
    """What the whole answer of a route and its chunks have in common."""

    kind: str
    prefix: str
    model: str
    ids: Schema

    def choice(self, content: Schema, reason: Schema) -> Schema:
        """Token ids are there where they were asked for."""
        rest: Schema = {"index": {"const": 0}, "logprobs": {"type": "null"}}
        ids = {"token_ids": self.ids, "prompt_token_ids": self.ids}
        return closed(content | rest | {"finish_reason": reason}, ids)

    def document(self, required: Schema, optional: Schema) -> Schema:
        head = {
            "id": TEXT | {"pattern": f"^{self.prefix}-[0-9a-f]{{24}}$"},
            "object": {"const": self.kind},
            "created": WHOLE,
            "model": {"const": self.model},
        }
        ids = {"prompt_token_ids": self.ids}
        return closed(head | required, optional | ids)


def _whole(form: _Form, content: Schema) -> Schema:
    one: Schema = {"type": "array", "minItems": 1, "maxItems": 1}
    choices = one | {"items": form.choice(content, REASON)}
    return form.document({"choices": choices, "usage": ref("Usage")}, {})


def _chunk(form: _Form, content: Schema) -> Schema:
    choice = form.choice(content, or_null(REASON))
    choices = {"type": "array", "items": choice, "maxItems": 1}
    usage = {"usage": or_null(ref("Usage"))}
    return form.document({"choices": choices}, usage)


def _errors() -> dict[str, Schema]:
    """A refusal in the two forms that it has."""
    said: Schema = {"code": TEXT, "message": TEXT}
    openai = said | {
        "type": {
            "enum": [
                "invalid_request_error",
                "authentication_error",
                "permission_error",
                "rate_limit_error",
                "server_error",
            ]
        },
        "param": or_null(TEXT),
    }
    return {
        "Error": closed({"error": closed(said)}),
        "OpenAIError": closed({"error": closed(openai)}),
    }
