"""The course's own routes: POST /generate, POST /stream, GET /health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from labkit.serving.protocol import GenerateRequest, Limits, parse_generate
from labkit.serving.text import End, Piece, collect, read


def add_routes(
    app: Flask,
    engine: Engine,
    allowed: Callable[[], Limits],
    about: Mapping[str, str | int],
) -> None:
    """`allowed` gives the limits of this server and its model.

    `about` is what /health says of the two besides.
    """

    def wanted() -> GenerateRequest:
        body = json_body(request)
        limits = allowed()
        return parse_generate(body, engine.backend().encode, limits)

    @app.post("/generate")
    def generate() -> Response:
        parsed = wanted()
        events = read(
            submit(engine, parsed, streams=False), engine.backend().decode
        )
        whole = collect(events)
        if isinstance(whole, Failed):
            return answer_refusal(whole.refusal)
        return answer(
            {
                "text": whole.text,
                "ids": list(whole.ids),
                "prompt_tokens": len(parsed.prompt_ids),
                "new_tokens": len(whole.ids),
                "queue_seconds": (whole.start_ns - whole.queued_ns) / 1e9,
                "seconds": (whole.end_ns - whole.start_ns) / 1e9,
            }
        )

    @app.post("/stream")
    def stream() -> Response:
        parsed = wanted()
        accepted = submit(engine, parsed, streams=True)
        events = read(accepted, engine.backend().decode)
        first = next(events)
        if isinstance(first, Failed):
            return answer_refusal(first.refusal)
        return event_stream(
            _as_events(first, events, parsed, engine.backend().name),
            accepted.cancel,
        )

    @app.get("/health")
    def health() -> Response:
        limits = allowed()
        return answer(
            {
                "status": "ok",
                "model": engine.backend().name,
                "context": limits.context,
                "vocabulary": limits.vocabulary,
                **about,
            }
        )


def _as_events(
    first: Any,
    events: Iterator[Started | Piece | End | Failed],
    parsed: GenerateRequest,
    model: str,
) -> Iterator[bytes]:
    """start, one token for each id, and then done or error."""
    count = 0
    yield sse.event(
        {
            "model": model,
            "prompt_tokens": len(parsed.prompt_ids),
            "queued_ns": first.queued_ns,
            "start_ns": first.time_ns,
        },
        "start",
    )
    for event in events:
        if isinstance(event, Piece):
            token = event.token
            data = {"index": count, "id": token.id, "text": event.text}
            yield sse.event(data | {"time_ns": token.time_ns}, "token")
            count += 1
        elif isinstance(event, End):
            data = {"reason": event.reason, "new_tokens": count}
            yield sse.event(data | {"time_ns": event.time_ns}, "done")
        elif isinstance(event, Failed):
            data = event.refusal.body()["error"]
            yield sse.event(data | {"time_ns": event.time_ns}, "error")
