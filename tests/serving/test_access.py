"""Keys, hosts and origins; and what the log does not say."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.serving.access import Access, host_name
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.protocol import Refusal

TIMEOUT_S = 10


def code(access: Access, path: str = "/generate", **headers: str) -> str:
    """The code of the refusal, or nothing."""
    names = ("host", "origin", "authorization")
    try:
        access.check(path, *(headers.get(name) for name in names))
    except Refusal as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost", True),
        ("LocalHost:8001", True),
        ("127.0.0.1:8001", True),
        ("192.168.1.7", True),
        ("[::1]:8001", True),
        ("mine.example:80", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@localhost", False),
        ("localhost/evil", False),
        ("localhost:x", False),
        ("[::1", False),
        ("", False),
        ("127.0.0.1#evil.example", False),
        ("127.0.0.1?evil.example", False),
        ("127.0.0.1\\evil.example", False),
        ("127.0.0.1:", False),
        ("127.0.0.1:65536", False),
        ("127.0.0.1:\u0661", False),
        ("[::1%25evil.example]", False),
        ("[::1]evil.example", False),
        ("::1", False),
        ("[evil.example]", False),
        ("[abc]", False),
        ("local\thost", False),
        ("localhost, localhost", False),
        ("[127.0.0.1]", False),
    ],
)
def test_hosts(host: str, good: bool) -> None:
    found = code(Access(names=["Mine.example"]), host=host)
    assert found == ("" if good else "foreign_host")


@pytest.mark.parametrize("name", ["lab.example", "LAB", "127.0.0.1"])
def test_a_host_name(name: str) -> None:
    assert host_name(name) == name
    assert code(Access(names=[host_name(name)]), host=f"{name}:80") == ""


@pytest.mark.parametrize(
    "name",
    ["", "lab:80", "http://lab", "lab/", "a@lab", "[::1]", "lab?", "lab#"],
)
def test_what_is_no_host_name(name: str) -> None:
    with pytest.raises(LabError, match="not the name of a host"):
        host_name(name)


@pytest.mark.parametrize(
    ("origin", "good"),
    [
        ("http://localhost:8001", True),
        ("https://LOCALHOST:8001", True),
        ("http://localhost:8002", False),
        ("http://127.0.0.1:8001", False),
        ("http://evil.example", False),
        ("file://localhost:8001", False),
        ("null", False),
        ("", False),
    ],
)
def test_origins(origin: str, good: bool) -> None:
    found = code(Access(), host="localhost:8001", origin=origin)
    assert found == ("" if good else "foreign_origin")


@pytest.mark.parametrize(
    ("origin", "host", "good"),
    [
        ("http://127.0.0.1:80", "127.0.0.1", True),
        ("http://127.0.0.1", "127.0.0.1:80", True),
        ("https://lab.example", "lab.example:443", True),
        ("http://[::1]:80", "[::1]", True),
        ("https://127.0.0.1", "127.0.0.1:80", False),
        ("http://127.0.0.1:8001", "127.0.0.1", False),
        ("http://127.0.0.1:", "127.0.0.1", False),
        ("http://127.0.0.1#", "127.0.0.1", False),
        ("http://", "127.0.0.1", False),
        ("http://127.0.0.1", None, False),
    ],
)
def test_a_port_may_be_left_out(
    origin: str, host: str | None, good: bool
) -> None:
    headers = {"origin": origin} | ({"host": host} if host else {})
    found = code(Access(names=["lab.example"]), **headers)
    assert found == ("" if good else "foreign_origin")


@pytest.mark.parametrize(
    ("authorization", "good"),
    [
        ("Bearer s3cret", True),
        ("bearer s3cret", True),
        ("Bearer s3cre", False),
        ("Bearer s3cret2", False),
        ("Bearer", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("Bearer \xe9", False),
        ("", False),
    ],
)
def test_keys(authorization: str, good: bool) -> None:
    access = Access(key="s3cret")
    found = code(access, authorization=authorization)
    assert found == ("" if good else "wrong_key")
    assert code(access, "/health") == ""
    assert code(access, "/metrics") == "wrong_key"
    assert code(Access(), authorization=authorization) == ""


@pytest.mark.parametrize("key", ["", " a", "a ", "é", "a\nb"])
def test_a_key_that_no_header_can_hold(key: str) -> None:
    with pytest.raises(LabError, match="printable ASCII"):
        Access(key=key)


@pytest.fixture
def guarded(backend: Any) -> Any:
    """A client of an application with a key, at http://localhost."""
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    yield create_app(engine, access=Access(key="s3cret")).test_client()
    assert engine.close()


@pytest.mark.parametrize(
    "path", ["/generate", "/stream", "/v1/completions", "/v1/chat/completions"]
)
def test_every_way_in_is_guarded(guarded: Any, path: str) -> None:
    body = {"prompt": "a", "max_new_tokens": 1}
    key = {"Authorization": "Bearer s3cret"}
    refused = guarded.post(path, json=body)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == "Bearer"
    evil = "evil.example"
    for headers in ({"Origin": f"http://{evil}"}, {"Host": evil}):
        answer = guarded.post(path, json=body, headers=headers | key)
        assert answer.status_code == 403
    assert guarded.post(path, json=body, headers=key).status_code < 500
    assert guarded.get("/health").status_code == 200


def test_the_log_holds_no_prompt_key_or_path(
    guarded: Any, backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = {"Authorization": "Bearer s3cret"}
    body = {"prompt": "confidential", "max_new_tokens": 2}
    assert guarded.post("/generate", json=body, headers=key).status_code == 200
    guarded.get("/confidential-path", headers=key)
    guarded.post("/generate", json=body, headers={"Authorization": "s3cret"})
    backend.encode = None  # an error that nobody foresaw
    guarded.post("/generate?confidential=1", json=body, headers=key)
    assert "generate failed" in caplog.text
    assert "confidential" not in caplog.text
    assert "s3cret" not in caplog.text
