"""OpenAI's routes: /v1/models, /v1/completions, /v1/chat/completions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, request

from labkit.serving import sse
from labkit.serving.http import (
    answer,
    answer_refusal,
    event_stream,
    json_body,
    submit,
)
from labkit.serving.interface import Engine, Failed, Started
from labkit.serving.openai_protocol import (
    OpenAIRequest,
    parse_chat,
    parse_completion,
)
from labkit.serving.protocol import Limits, openai_error
from labkit.serving.text import End, Piece, collect, read

Events = Iterator[Started | Piece | End | Failed]


def add_routes(
    app: Flask,
    engine: Engine,
    allowed: Callable[[], Limits],
    wall_clock: Callable[[], float],
) -> None:
    """`wall_clock` gives seconds since 1970, for what OpenAI calls created."""
    started = int(wall_clock())

    @app.get("/v1/models")
    def models() -> Response:
        model = {"id": engine.backend().name, "object": "model"}
        model |= {"owned_by": "labkit"}
        listed = [model | {"created": started}]
        return answer({"object": "list", "data": listed})

    @app.post("/v1/completions")
    def completions() -> Response:
        body, limits, served = json_body(request), allowed(), engine.backend()
        parsed = parse_completion(body, served.name, limits, served.encode)
        form = _Completion(served.name, int(wall_clock()), parsed)
        return _respond(engine, form)

    @app.post("/v1/chat/completions")
    def chat() -> Response:
        body, limits, served = json_body(request), allowed(), engine.backend()
        parsed = parse_chat(body, served.name, limits, served.encode_chat)
        form = _Chat(served.name, int(wall_clock()), parsed)
        return _respond(engine, form)


@dataclass(frozen=True)
class _Completion:
    """The shape of answers to /v1/completions."""

    model: str
    created: int
    parsed: OpenAIRequest
    kind: str = "text_completion"
    kind_of_chunk: str = "text_completion"
    prefix: str = "cmpl-"
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    def choice(self, text: str, reason: str | None) -> dict[str, Any]:
        return self._choice({"text": text}, reason)

    def delta(self, text: str, reason: str | None) -> dict[str, Any]:
        return self._choice({"text": text}, reason)

    def with_ids(
        self, choice: dict[str, Any], ids: Sequence[int]
    ) -> dict[str, Any]:
        """The choice, with the ids of its tokens where they were asked for.

        Where they stand, and where those of the prompt do, is vLLM's form.
        """
        return choice | self._ids("token_ids", ids)

    def with_prompt(self, document: dict[str, Any]) -> dict[str, Any]:
        """A whole answer or a first chunk, with the prompt's ids."""
        prompt = self._ids("prompt_token_ids", self.parsed.request.prompt_ids)
        choices = [choice | prompt for choice in document["choices"]]
        return document | {"choices": choices}

    def opening(self) -> list[dict[str, Any]]:
        """Choices that come before the first token's."""
        return []

    def document(
        self, choices: list[dict[str, Any]], *, chunk: bool
    ) -> dict[str, Any]:
        return {
            "id": self.prefix + self.token,
            "object": self.kind_of_chunk if chunk else self.kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def usage(self, new_tokens: int) -> dict[str, int]:
        prompt_tokens = len(self.parsed.request.prompt_ids)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": new_tokens,
            "total_tokens": prompt_tokens + new_tokens,
        }

    def _ids(self, name: str, ids: Sequence[int]) -> dict[str, list[int]]:
        return {name: list(ids)} if self.parsed.token_ids else {}

    @staticmethod
    def _choice(content: dict[str, Any], reason: str | None) -> dict[str, Any]:
        rest = {"index": 0, "logprobs": None, "finish_reason": reason}
        return content | rest


@dataclass(frozen=True)
class _Chat(_Completion):
    """The shape of answers to /v1/chat/completions."""

    kind: str = "chat.completion"
    kind_of_chunk: str = "chat.completion.chunk"
    prefix: str = "chatcmpl-"

    def choice(self, text: str, reason: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return self._choice({"message": message}, reason)

    def delta(self, text: str, reason: str | None) -> dict[str, Any]:
        return self._choice({"delta": {"content": text}}, reason)

    def with_prompt(self, document: dict[str, Any]) -> dict[str, Any]:
        prompt = self.parsed.request.prompt_ids
        return document | self._ids("prompt_token_ids", prompt)

    def opening(self) -> list[dict[str, Any]]:
        role = {"role": "assistant", "content": ""}
        return [self._choice({"delta": role}, None)]


def _respond(engine: Engine, form: _Completion) -> Response:
    parsed = form.parsed
    stream = submit(engine, parsed.request, streams=parsed.stream)
    events = read(stream, engine.backend().decode, parsed.stop)
    if parsed.stream:
        started, first = next(events), None
        if isinstance(started, Started):
            # Until the first token comes, a failure still has a status.
            first = next(events)
        failed = started if first is None else first
        if isinstance(failed, Failed):
            return answer_refusal(failed.refusal)
        assert first is not None
        return event_stream(_chunks(form, first, events), stream.cancel)
    whole = collect(events)
    if isinstance(whole, Failed):
        return answer_refusal(whole.refusal)
    choice = form.with_ids(form.choice(whole.text, whole.reason), whole.ids)
    document = form.with_prompt(form.document([choice], chunk=False))
    return answer(document | {"usage": form.usage(len(whole.ids))})


def _chunks(form: _Completion, first: Any, events: Events) -> Iterator[bytes]:
    """One chunk for each token, then the reason, the usage and the end."""
    count = sent = 0
    wants = form.parsed

    def chunk(choices: list[dict[str, Any]]) -> bytes:
        nonlocal sent
        document = form.document(choices, chunk=True)
        if sent == 0:
            document = form.with_prompt(document)
        sent += 1
        if wants.usage_in_each or (wants.include_usage and not choices):
            document["usage"] = form.usage(count)
        elif wants.include_usage:
            document["usage"] = None
        return sse.event(document)

    for choice in form.opening():
        yield chunk([choice])
    for event in _chain(first, events):
        if isinstance(event, Piece):
            count += 1
            delta = form.delta(event.text, None)
            yield chunk([form.with_ids(delta, [event.token.id])])
        elif isinstance(event, Failed):
            yield sse.event(openai_error(event.refusal))
            return
        elif isinstance(event, End):
            delta = form.delta(event.text, event.reason)
            yield chunk([form.with_ids(delta, [])])
    if wants.include_usage:
        yield chunk([])
    yield sse.DONE


def _chain(first: Any, events: Events) -> Events:
    yield first
    yield from events
