"""The page's headers; what it does is tried in tests/browser."""

from __future__ import annotations

import base64
import hashlib

import pytest
import requests

from labkit.serving.page import security_headers

TIMEOUT_S = 10


def test_the_page_lets_nothing_else_in(url: str) -> None:
    answer = requests.get(url + "/", timeout=TIMEOUT_S)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    html = answer.text
    assert "http-equiv" not in html
    assert " style=" not in html
    assert " src=" not in html


def test_the_hashes_are_those_of_the_elements() -> None:
    html = "<style>a {}</style>\n<script>\nlet é;\n</script>"
    policy = security_headers(html)["Content-Security-Policy"]
    for content in ("a {}", "\nlet é;\n"):
        digest = hashlib.sha256(content.encode()).digest()
        assert base64.b64encode(digest).decode() in policy


def test_a_second_script_would_not_be_let_in() -> None:
    with pytest.raises(ValueError, match="unpack"):
        security_headers("<style></style><script></script><script></script>")
