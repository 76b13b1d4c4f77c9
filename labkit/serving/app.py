"""The HTTP routes: POST /generate and GET /health.

Nothing here touches a socket or a model; every answer is JSON.
"""

from __future__ import annotations

from typing import Any

from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from labkit.serving.engine import Backend, Engine
from labkit.serving.protocol import (
    Limits,
    Refusal,
    body_too_large,
    parse_generate,
    parse_json,
    shown,
    to_json,
)

ROUTES = "POST /generate and GET /health"


def create_app(engine: Engine, limits: Limits | None = None) -> Flask:
    """The application around `engine`.

    `limits` is what this server lets in; what the model can take, known
    once it is loaded, holds as well, and the smaller number wins.
    """
    limits = limits or Limits()
    app = Flask("labkit.serving", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=limits.max_body_bytes,
        # Flask answers OPTIONS by itself, with an empty page.
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.register_error_handler(Refusal, _answer_refusal)
    app.register_error_handler(HTTPException, _answer_http_exception)

    def within_model(backend: Backend) -> Limits:
        return limits.within(backend.context, backend.vocabulary)

    @app.post("/generate")
    def generate() -> Response:
        _require_json(request)
        body = parse_json(request.get_data(cache=False))
        allowed = within_model(engine.backend())
        wanted = parse_generate(body, engine.encode, allowed)
        done = engine.generate(wanted.prompt_ids, wanted.max_new_tokens)
        return _answer(
            {
                "text": done.text,
                "ids": list(done.ids),
                "prompt_tokens": done.prompt_tokens,
                "new_tokens": len(done.ids),
                "queue_seconds": done.queue_seconds,
                "seconds": done.seconds,
            }
        )

    @app.get("/health")
    def health() -> Response:
        backend = engine.backend()
        allowed = within_model(backend)
        return _answer(
            {
                "status": "ok",
                "model": backend.name,
                "context": allowed.context,
                "vocabulary": allowed.vocabulary,
            }
        )

    return app


def _answer(document: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(document), status, mimetype="application/json")


def _answer_refusal(refusal: Refusal) -> Response:
    response = _answer(refusal.body(), refusal.status)
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    return response


def _require_json(asked: Request) -> None:
    charset = asked.mimetype_params.get("charset", "utf-8").lower()
    if asked.mimetype != "application/json" or charset != "utf-8":
        raise Refusal(
            415,
            "unsupported_media_type",
            "Send JSON in UTF-8 with the header "
            "Content-Type: application/json.",
        )


def _answer_http_exception(error: HTTPException) -> Response:
    """Flask's own refusals (404, 405, 413, 500 and the rest) as ours."""
    status = error.code or 500
    if not isinstance(error, MethodNotAllowed):
        return _answer_refusal(_refusal(status))
    allow = ", ".join(sorted(error.valid_methods or ()))
    response = _answer_refusal(
        Refusal(
            status,
            "method_not_allowed",
            f"{shown(request.path)} takes another method; send {allow}.",
        )
    )
    response.headers["Allow"] = allow
    return response


def _refusal(status: int) -> Refusal:
    if status == 404:
        return Refusal(
            404,
            "not_found",
            f"There is no {shown(request.path)} here; send {ROUTES}.",
        )
    if status == 413:
        return body_too_large(request.max_content_length or 0)
    if status >= 500:
        return Refusal(
            status,
            "internal_error",
            "The server failed on this request; its log says why, and other "
            "requests can still be sent.",
        )
    return Refusal(
        status,
        "bad_request",
        f"The request cannot be understood; send {ROUTES} as documented.",
    )
