"""The page at /: one file, and headers that let in nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

from flask import Flask, Response


def add_routes(app: Flask) -> None:
    """GET /, read once."""
    html = resources.files("labkit.serving").joinpath("page.html")
    text = html.read_text(encoding="utf-8")
    headers = security_headers(text)

    @app.get("/")
    def page() -> Response:
        response = Response(text, mimetype="text/html")
        response.headers.update(headers)
        return response


def security_headers(html: str) -> dict[str, str]:
    """Headers that allow the page's own script and style by their hashes."""
    policy = (
        "default-src 'none'",
        f"script-src {_hash(html, 'script')}",
        f"style-src {_hash(html, 'style')}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _hash(html: str, tag: str) -> str:
    """The one inline element's hash, as CSP level 3 writes it."""
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
