"""Between Flask and the engine: bodies in, answers out, clients gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Request, Response, request

from labkit.serving.interface import Engine, Stream
from labkit.serving.protocol import (
    GenerateRequest,
    Refusal,
    error_document,
    parse_json,
    to_json,
)

HALF_CLOSE_S = 0.25
"""A client that ends its side this soon after a request, as `nc -N` does,
still reads; later, that is how one goes away."""


def answer(document: dict[str, Any], status: int = 200) -> Response:
    """A JSON answer."""
    return Response(to_json(document), status, mimetype="application/json")


def answer_refusal(refusal: Refusal) -> Response:
    """A refusal, in OpenAI's form under its prefix."""
    response = answer(error_document(refusal, request.path), refusal.status)
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def json_body(asked: Request) -> dict[str, Any]:
    """The JSON object that was sent; refused when it is none."""
    charset = asked.mimetype_params.get("charset", "utf-8").lower()
    if asked.mimetype != "application/json" or charset != "utf-8":
        raise Refusal(
            415,
            "unsupported_media_type",
            "Send JSON in UTF-8 with the header "
            "Content-Type: application/json.",
        )
    return parse_json(asked.get_data(cache=False))


def submit(
    engine: Engine, wanted: GenerateRequest, *, streams: bool
) -> Stream:
    """Submit, and cancel when the client goes away.

    Whoever `streams` reads as long as the connection is open.
    """
    stream = engine.submit(wanted)
    watch = request.environ.get("labkit.on_departure")
    if watch is not None:
        watch(stream.cancel, 0.0 if streams else HALF_CLOSE_S)
    return stream


def event_stream(
    events: Iterable[bytes], cancel: Callable[[], None]
) -> Response:
    """Server-sent events; `cancel` is called when nobody reads on."""
    response = Response(
        _until_closed(events, cancel), mimetype="text/event-stream"
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would collect them
    return response


def _until_closed(
    events: Iterable[bytes], cancel: Callable[[], None]
) -> Iterator[bytes]:
    try:
        yield from events
    finally:
        cancel()  # does nothing after the end
