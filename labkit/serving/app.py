"""The application: routes, refusals and what surrounds them.

Nothing here touches a socket or a model.
"""

from __future__ import annotations

from types import TracebackType

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from labkit.serving import native
from labkit.serving.http import answer_refusal
from labkit.serving.interface import Engine
from labkit.serving.protocol import Limits, Refusal, body_too_large, shown

ROUTES = "POST /generate and GET /health"


class _App(Flask):
    def log_exception(
        self,
        exc_info: tuple[type, BaseException, TracebackType]
        | tuple[None, None, None],
    ) -> None:
        """Log an error by its route, for a path may be private."""
        self.logger.error("%s failed", request.endpoint, exc_info=exc_info)


def create_app(engine: Engine, limits: Limits | None = None) -> Flask:
    """The application around `engine`.

    `limits` is what this server lets in; what the model can take, known
    once it is loaded, holds as well, and the smaller number wins.
    """
    limits = limits or Limits()
    app = _App("labkit.serving", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=limits.max_body_bytes,
        # Flask answers OPTIONS by itself, with an empty page.
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.register_error_handler(Refusal, answer_refusal)
    app.register_error_handler(HTTPException, _answer_http_exception)

    def allowed() -> Limits:
        backend = engine.backend()
        return limits.within(backend.context, backend.vocabulary)

    native.add_routes(app, engine, allowed)
    return app


def _answer_http_exception(error: HTTPException) -> Response:
    """Flask's own refusals (404, 405, 413, 500 and the rest) as ours."""
    status = error.code or 500
    if not isinstance(error, MethodNotAllowed):
        return answer_refusal(_refusal(status))
    allow = ", ".join(sorted(error.valid_methods or ()))
    response = answer_refusal(
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
