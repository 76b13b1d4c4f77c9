"""The application: routes, refusals and what surrounds them.

Nothing here touches a socket or a model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from labkit.serving import native, openai_routes, openapi, page
from labkit.serving.access import Access
from labkit.serving.http import answer_refusal
from labkit.serving.interface import Engine
from labkit.serving.metrics import CONTENT_TYPE, Metrics
from labkit.serving.protocol import (
    OPENAI_PREFIX,
    Limits,
    Refusal,
    body_too_large,
    shown,
)

ROUTES = "POST /generate, POST /stream or GET /health"
OPENAI_ROUTES = (
    "GET /v1/models, POST /v1/completions or POST /v1/chat/completions"
)


class _App(Flask):
    def log_exception(
        self,
        exc_info: tuple[type, BaseException, TracebackType]
        | tuple[None, None, None],
    ) -> None:
        """Log an error by its route, for a path may be private."""
        self.logger.error("%s failed", request.endpoint, exc_info=exc_info)


def create_app(
    engine: Engine,
    limits: Limits | None = None,
    access: Access | None = None,
    about: Mapping[str, str | int] | None = None,
) -> Flask:
    """The application around `engine`.

    `limits` is what this server lets in; what the model can take, known
    once it is loaded, holds as well, and the smaller number wins. `access`
    says who may use it; without, any program of this machine and network.
    `about` is what GET /health tells besides.
    """
    limits = limits or Limits()
    app = _App("labkit.serving", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=limits.max_body_bytes,
        # Flask answers OPTIONS by itself, with an empty page.
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.merge_slashes = False  # it would redirect, in HTML
    metrics = Metrics(engine)
    _add_refusals(app, metrics)
    _add_guards(app, access or Access())

    def allowed() -> Limits:
        backend = engine.backend()
        return limits.within(backend.context, backend.vocabulary)

    native.add_routes(app, engine, allowed, about or {})
    openai_routes.add_routes(app, engine, allowed, time.time)
    openapi.add_routes(app, engine, allowed, access)
    page.add_routes(app)

    @app.get("/metrics")
    def show_metrics() -> Response:
        return Response(metrics.text(), content_type=CONTENT_TYPE)

    return app


def _add_refusals(app: Flask, metrics: Metrics) -> None:
    def refuse(refusal: Refusal) -> Response:
        metrics.refused(refusal.code)
        return answer_refusal(refusal)

    def refuse_http(error: HTTPException) -> Response:
        response = refuse(_as_refusal(error))
        if isinstance(error, MethodNotAllowed):
            response.headers["Allow"] = _methods(error)
        return response

    app.register_error_handler(Refusal, refuse)
    app.register_error_handler(HTTPException, refuse_http)


def _add_guards(app: Flask, access: Access) -> None:
    @app.before_request
    def check_access() -> None:
        headers = request.headers
        access.check(
            request.path,
            headers.get("Host"),
            headers.get("Origin"),
            headers.get("Authorization"),
        )

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response


def _methods(error: MethodNotAllowed) -> str:
    return ", ".join(sorted(error.valid_methods or ()))


def _as_refusal(error: HTTPException) -> Refusal:
    """Flask's own refusals (404, 405, 413, 500 and the rest) as ours."""
    if isinstance(error, MethodNotAllowed):
        return Refusal(
            405,
            "method_not_allowed",
            f"{shown(request.path)} takes another method; "
            f"send {_methods(error)}.",
        )
    return _refusal(error.code or 500)


def _refusal(status: int) -> Refusal:
    if status == 404:
        return Refusal(
            404,
            "not_found",
            f"There is no {shown(request.path)} here; send {_routes()}.",
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
        f"The request cannot be understood; send {_routes()} as documented.",
    )


def _routes() -> str:
    """What could have been meant."""
    openai = request.path.startswith(OPENAI_PREFIX)
    return OPENAI_ROUTES if openai else ROUTES
