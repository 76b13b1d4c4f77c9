"""What a request to the OpenAI routes may hold: pure functions.

Fields that change the answer are obeyed or refused, never ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.generation import Sampling
from labkit.serving.protocol import (
    GenerateRequest,
    Limits,
    Refusal,
    check_ids,
    check_room,
    check_text,
    kind_of,
    shown,
)

COMPLETION_TOKENS = 16
"""OpenAI's own default of `max_tokens` for completions."""
CHAT_TOKENS = 512
"""The default for a chat, where less room does not set it."""
MAX_STOPS = 4
MAX_STOP_CHARACTERS = 200
MAX_MESSAGES = 1000
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
IGNORED = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "parallel_tool_calls", "cache_prompt"),
    }
)
"""These do not change an answer."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "top_k": (0, -1),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
"""Fields that are not obeyed, with the values that ask for nothing."""
COMMON = frozenset(
    {
        *("model", "max_tokens", "temperature", "top_p", "seed", "stop"),
        *("stream", "stream_options", "ignore_eos", "min_tokens"),
        "return_token_ids",
    }
)


@dataclass(frozen=True)
class OpenAIRequest:
    """A checked request, and how its answer is to be sent."""

    request: GenerateRequest
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    usage_in_each: bool = False
    token_ids: bool = False


def parse_completion(
    body: dict[str, Any],
    model: str,
    limits: Limits,
    encode: Callable[[str], list[int]],
) -> OpenAIRequest:
    """Check the body of POST /v1/completions; `model` is the one there is."""
    _check_names(body, {"prompt"})
    _check_model(body, model)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        only = prompt[0]
        prompt = only if isinstance(only, str | list) else prompt
    if isinstance(prompt, list):
        ids = check_ids(prompt, limits, "prompt")
    else:
        ids = encode(check_text(prompt, "prompt"))
    wanted = _count(body, ("max_tokens",))
    return _parse(body, ids, wanted or COMPLETION_TOKENS, limits)


def parse_chat(
    body: dict[str, Any],
    model: str,
    limits: Limits,
    encode_chat: Callable[[Sequence[Mapping[str, str]]], list[int]],
) -> OpenAIRequest:
    """Check the body of POST /v1/chat/completions."""
    _check_names(body, {"messages", "max_completion_tokens"})
    _check_model(body, model)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _wrong("messages", "Send messages, an array of at least one.")
    if len(messages) > MAX_MESSAGES:
        raise _wrong("messages", f"Send at most {MAX_MESSAGES} messages.")
    ids = encode_chat([_message(m, k) for k, m in enumerate(messages)])
    wanted = _count(body, ("max_completion_tokens", "max_tokens"))
    room = max(1, min(CHAT_TOKENS, limits.context - len(ids)))
    return _parse(body, ids, wanted or room, limits)


def _parse(
    body: dict[str, Any], ids: list[int], new_tokens: int, limits: Limits
) -> OpenAIRequest:
    check_room(len(ids), new_tokens, limits)
    options = body.get("stream_options")
    if options is None:
        options = {}
    if not isinstance(options, dict):
        raise _wrong("stream_options", "Send stream_options as an object.")
    request = GenerateRequest(
        tuple(ids),
        new_tokens,
        _sampling(body),
        stop_at_end=not _flag(body, "ignore_eos"),
    )
    parsed = OpenAIRequest(
        request,
        _stops(body),
        _flag(body, "stream"),
        _flag(options, "include_usage"),
        _flag(options, "continuous_usage_stats"),
        _flag(body, "return_token_ids"),
    )
    _check_min_tokens(body, parsed)
    return parsed


def _wrong(name: str, message: str) -> Refusal:
    return Refusal(400, "invalid_value", message, param=name)


def _check_names(body: dict[str, Any], more: set[str]) -> None:
    for name, value in body.items():
        if name in COMMON | IGNORED | more or value is None:
            continue
        if name not in NEUTRAL:
            raise Refusal(
                400,
                "unknown_field",
                f"The field {shown(name)} is unknown; leave it out.",
                param=name[:40],
            )
        if not any(_equal(value, neutral) for neutral in NEUTRAL[name]):
            raise Refusal(
                400,
                "unsupported_value",
                f"This server does nothing with {name}; leave it out.",
                param=name,
            )


def _check_min_tokens(body: dict[str, Any], parsed: OpenAIRequest) -> None:
    """Obeyed where nothing can end an answer early; refused elsewhere."""
    least = body.get("min_tokens")
    if least is None:
        return
    most = parsed.request.max_new_tokens
    if type(least) is not int or not 0 <= least <= most:
        raise _wrong(
            "min_tokens",
            f"Send min_tokens as a whole number from 0 to {most}, the most "
            "tokens of this answer.",
        )
    if least > 0 and (parsed.request.stop_at_end or parsed.stop):
        raise Refusal(
            400,
            "unsupported_value",
            "This server obeys min_tokens only with ignore_eos and without "
            "stop; send it so, or leave it out.",
            param="min_tokens",
        )


def _equal(value: Any, other: Any) -> bool:
    """Equal in JSON, where true is not 1, nor false 0."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(
        value == other
    )


def _check_model(body: dict[str, Any], model: str) -> None:
    asked = body.get("model", model)
    if asked != model:
        raise Refusal(
            404,
            "model_not_found",
            f"The only model here is {model}; ask for that.",
            param="model",
        )


def _message(message: Any, index: int) -> dict[str, str]:
    name = f"messages[{index}]"
    if not isinstance(message, dict):
        raise _wrong(name, f"{name} is {kind_of(message)}; send an object.")
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise _wrong(
            f"{name}.role", f"Send {name}.role as one of {', '.join(ROLES)}."
        )
    for field, value in message.items():
        if field not in {"role", "content", "name"} and value:
            raise _wrong(name, f"{name} may hold a role and a content only.")
    text = _content(message.get("content"), f"{name}.content")
    return {"role": ROLES[role], "content": text}


def _content(content: Any, name: str) -> str:
    """The text of a message, also where it comes as a list of parts."""
    if not isinstance(content, list):
        return check_text(content, name, may_be_empty=True)
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text":
            raise _wrong(name, f"Send text alone in {name}.")
        texts.append(check_text(part.get("text"), name, may_be_empty=True))
    return "".join(texts)


def _count(body: dict[str, Any], names: Sequence[str]) -> int | None:
    """The first of these fields that counts; each has to be a count."""
    first = None
    for name in names:
        count = body.get(name)
        if count is None:
            continue
        if type(count) is not int or count < 1:
            raise _wrong(name, f"Send {name} as a whole number from 1 up.")
        first = first or count
    return first


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(name, f"{name} is {kind_of(value)}; send true or false.")
    return value


def _number(body: dict[str, Any], name: str, largest: float) -> float:
    value = body.get(name)
    if value is None:
        return 1.0
    if type(value) not in (int, float) or not 0 <= value <= largest:
        raise _wrong(name, f"Send {name} as a number from 0 to {largest}.")
    return float(value)


def _sampling(body: dict[str, Any]) -> Sampling | None:
    """None for greedy decoding: temperature 0, or nothing but the best."""
    temperature = _number(body, "temperature", 2)
    top_p = _number(body, "top_p", 1)
    seed = body.get("seed")
    if seed is None:
        seed = secrets.randbits(63)
    elif type(seed) is not int or not -(2**63) <= seed < 2**63:
        raise _wrong("seed", "Send seed as a whole number of 64 bits.")
    if temperature == 0 or top_p == 0:
        return None
    # The smallest temperatures are greedy in all but name, and divide by 0.
    return Sampling(max(temperature, 1e-6), top_p=top_p, seed=seed)


def _stops(body: dict[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    if stop is None:
        return ()
    stops = [stop] if isinstance(stop, str) else stop
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(each, str) and each for each in stops)
        or any(len(each) > MAX_STOP_CHARACTERS for each in stops)
    ):
        raise _wrong(
            "stop",
            f"Send stop as a text, or an array of up to {MAX_STOPS}, of at "
            f"most {MAX_STOP_CHARACTERS} characters each.",
        )
    return tuple(stops)
