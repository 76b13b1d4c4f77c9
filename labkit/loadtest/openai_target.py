"""OpenAI's protocol, as many servers speak it. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import LabError
from labkit.loadtest.records import Arrival, Kind, Request
from labkit.loadtest.targets import (
    Fault,
    Reading,
    authorization,
    document_of,
    integer,
    message_of,
    text_of,
)
from labkit.loadtest.wire import Address


def _exact_length() -> Mapping[str, Any]:
    return {"ignore_eos": True}


@dataclass(frozen=True)
class OpenAITarget:
    """An OpenAI-compatible server: /v1/completions, or `chat`'s route.

    It is asked greedily, and for usage; `usage_in_each` chunk asks with
    `continuous_usage_stats`, as vLLM and the course's server take it, and
    `extra` holds further fields of the body (llama.cpp counts in each chunk
    with `timings_per_token`). A server that refuses fields it does not know
    needs `usage_in_each=False, extra={}`.
    """

    url: str
    model: str
    chat: bool = False
    key: str | None = None
    usage_in_each: bool = True
    extra: Mapping[str, Any] = field(default_factory=_exact_length)
    vocabulary: int | None = None

    def __post_init__(self) -> None:
        Address.of(self.url)

    @property
    def address(self) -> Address:
        return Address.of(self.url)

    @property
    def path(self) -> str:
        route = "chat/completions" if self.chat else "completions"
        return f"{self.address.prefix}/v1/{route}"

    @property
    def headers(self) -> Mapping[str, str]:
        return authorization(self.key)

    def body(self, request: Request) -> dict[str, Any]:
        """LabError for ids in a chat, which takes text alone."""
        options = {"include_usage": True}
        if self.usage_in_each:
            options["continuous_usage_stats"] = True
        return {
            "model": self.model,
            **self._prompt(request),
            "max_tokens": request.new_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": options,
            **self.extra,
        }

    def reading(self) -> Reading:
        return _OpenAIReading(vocabulary=self.vocabulary)

    def _prompt(self, request: Request) -> dict[str, Any]:
        ids = request.prompt_ids
        if not self.chat:
            return {"prompt": request.text if ids is None else list(ids)}
        if ids is not None:
            raise LabError(
                "A chat takes text and no token ids: give text, or use the"
                " completions route."
            )
        return {"messages": [{"role": "user", "content": request.text}]}


class _OpenAIReading(Reading):
    _each: bool | None = None
    """Whether chunks carry a running count; known from the first token."""

    def _read(self, name: str, data: str, time_ns: int) -> Arrival | None:
        if data.strip() == "[DONE]":
            self.done = True
            return Arrival(time_ns, "done")
        document = document_of(data)
        error = document.get("error")
        if error is not None or name == "error":
            self.error, self.done = message_of(document), True
            return Arrival(time_ns, "error")
        choice = _choice(document)
        text, ids = _content(choice), _ids(choice)
        count = self._running_count(document)
        if self._each is None and (text or ids or count):
            self._each = bool(count)
        tokens = self._tokens(text, ids, count)
        kind: Kind = "token" if tokens else "other"
        return Arrival(time_ns, kind, ids, tokens, None, text)

    def _tokens(
        self, text: str, ids: tuple[int, ...], count: int | None
    ) -> int:
        """How many tokens this chunk has, by the best that it says."""
        if ids:
            self.counted = "ids"
            return len(ids)
        if self.counted == "ids":
            return 0
        if count is not None:
            self.counted = "usage"
        elif self.counted is None and text:
            self.counted = "chunks"
        if self._each:
            return max(0, (count or 0) - self.arrived)
        return 1 if text else 0

    def _running_count(self, document: Mapping[str, Any]) -> int | None:
        usage = document.get("usage")
        timings = document.get("timings")
        count = None
        if isinstance(usage, dict):
            asked = integer(usage, "prompt_tokens")
            self.prompt_tokens = self.prompt_tokens if asked is None else asked
            count = integer(usage, "completion_tokens")
        elif isinstance(timings, dict):
            count = integer(timings, "predicted_n")
        if count is not None:
            self.new_tokens = count
        return count


def _choice(document: Mapping[str, Any]) -> dict[str, Any]:
    """The first choice, or an empty one."""
    choices = document.get("choices") or []
    if not isinstance(choices, list):
        raise Fault("malformed", "choices is no list")
    if choices and not isinstance(choices[0], dict):
        raise Fault("malformed", "a choice is no object")
    return choices[0] if choices else {}


def _content(choice: Mapping[str, Any]) -> str:
    delta = choice.get("delta") or {}
    if not isinstance(delta, dict):
        raise Fault("malformed", "delta is no object")
    parts = [text_of(choice, "text"), text_of(delta, "content")]
    # What a reasoning model thinks is made of tokens as well.
    parts += [text_of(delta, "reasoning_content"), text_of(delta, "reasoning")]
    return "".join(parts)


def _ids(choice: Mapping[str, Any]) -> tuple[int, ...]:
    ids = choice.get("token_ids") or []
    if not isinstance(ids, list) or any(type(i) is not int for i in ids):
        raise Fault("malformed", "token_ids is no list of ids")
    return tuple(ids)
