"""The routes over real HTTP: every refusal, and the right answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from labkit.errors import LabError
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.protocol import Limits

TIMEOUT_S = 10
Check = Callable[[Any, int, str], None]
Start = Callable[[SingleSlotEngine], str]


@pytest.fixture
def engine(backend: Any) -> Iterator[SingleSlotEngine]:
    """One without a socket before it."""
    made = SingleSlotEngine(lambda: backend)
    made.wait_until_ready(TIMEOUT_S)
    yield made
    assert made.close()


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def generate(url: str, **fields: Any) -> requests.Response:
    return requests.post(url + "/generate", json=fields, timeout=TIMEOUT_S)


def test_a_completion(url: str) -> None:
    answer = generate(url, prompt="a", max_new_tokens=3)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    document = answer.json()
    assert document.pop("queue_seconds") >= 0
    assert document.pop("seconds") > 0
    assert document == {
        "text": "bcd",
        "ids": [98, 99, 100],
        "prompt_tokens": 1,
        "new_tokens": 3,
    }
    by_ids = generate(url, prompt_ids=[97], max_new_tokens=3)
    assert by_ids.json()["ids"] == [98, 99, 100]


def test_a_charset_may_be_named(post: Callable[..., Any]) -> None:
    asked = body(prompt="a", max_new_tokens=1)
    for kind in ("application/json; charset=UTF-8", "Application/JSON"):
        assert post(asked, kind).status == 200


def test_health_when_ready(url: str) -> None:
    answer = requests.get(url + "/health", timeout=TIMEOUT_S)
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "model": "scripted",
        "context": 64,
        "vocabulary": 256,
    }


def test_health_tells_what_else_is_known(
    engine: SingleSlotEngine,
) -> None:
    about: dict[str, str | int] = {"weights": "fused", "threads": 1}
    client = create_app(engine, about=about).test_client()
    told = client.get("/health").json
    assert told is not None
    assert told.items() >= {"status": "ok", **about}.items()


REFUSED = [
    (b"", "empty_body"),
    (b"hello", "invalid_json"),
    (b"prompt=a&max_new_tokens=1", "invalid_json"),
    (b"[1]", "not_an_object"),
    (b'{"prompt": "\xff", "max_new_tokens": 1}', "invalid_utf8"),
    (b'{"prompt": "\\ud800", "max_new_tokens": 1}', "lone_surrogate"),
    (b'{"prompt": "\\udc00\\ud800", "max_new_tokens": 1}', "lone_surrogate"),
    (b'{"prompt": "a", "max_new_tokens": NaN}', "not_finite"),
    (b'{"prompt": "a", "max_new_tokens": -Infinity}', "not_finite"),
    (b'{"prompt": "a", "prompt": "b"}', "duplicate_key"),
    (b"[" * 100_000, "nested_too_deep"),
    (
        b'{"prompt": "a", "max_new_tokens": ' + b"1" * 5000 + b"}",
        "number_too_long",
    ),
    (body(prompt="a"), "missing_max_new_tokens"),
    (body(max_new_tokens=1), "missing_prompt"),
    (body(prompt="", max_new_tokens=1), "empty_prompt"),
    (body(prompt_ids=[], max_new_tokens=1), "empty_prompt"),
    (body(prompt="a", prompt_ids=[1], max_new_tokens=1), "two_prompts"),
    (body(prompt=None, max_new_tokens=1), "wrong_type"),
    (body(prompt=["a"], max_new_tokens=1), "wrong_type"),
    (body(prompt="a", max_new_tokens="1"), "wrong_type"),
    (body(prompt="a", max_new_tokens=True), "wrong_type"),
    (body(prompt="a", max_new_tokens=1.0), "wrong_type"),
    (body(prompt="a", max_new_tokens=1.5), "wrong_type"),
    (b'{"prompt": "a", "max_new_tokens": 1e999}', "wrong_type"),
    (body(prompt="a", max_new_tokens=0), "too_few_tokens"),
    (body(prompt="a", max_new_tokens=-1), "too_few_tokens"),
    (body(prompt="a", max_new_tokens=10**30), "over_context"),
    (body(prompt="a" * 60, max_new_tokens=5), "over_context"),
    (body(prompt_ids=[1] * 60, max_new_tokens=5), "over_context"),
    (body(prompt="a" * 900_000, max_new_tokens=5), "over_context"),
    (body(prompt_ids=[256], max_new_tokens=1), "id_outside_vocabulary"),
    (body(prompt_ids=[-1], max_new_tokens=1), "id_outside_vocabulary"),
    (body(prompt_ids=[True], max_new_tokens=1), "wrong_type"),
    (body(prompt_ids="a", max_new_tokens=1), "wrong_type"),
    (body(prompt="a", max_new_tokens=1, stream=True), "unknown_field"),
    (body(**{"<html>": 1}), "unknown_field"),
]


@pytest.mark.parametrize(("asked", "code"), REFUSED)
def test_a_body_is_refused(
    asked: bytes,
    code: str,
    post: Callable[..., Any],
    assert_serving: Callable[[], None],
) -> None:
    reply = post(asked)
    document = json.loads(reply.body)
    assert (reply.status, document["error"]["code"]) == (400, code)
    assert reply.headers["Content-Type"] == "application/json"
    assert b"Traceback" not in reply.body
    assert len(reply.body) < 400
    assert_serving()


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/jsonx",
        "multipart/form-data; boundary=x",
    ],
)
def test_another_content_type_is_refused(
    kind: str | None,
    post: Callable[..., Any],
    assert_refused: Check,
    assert_serving: Callable[[], None],
) -> None:
    reply = post(body(prompt="a", max_new_tokens=1), kind)
    assert_refused(reply, 415, "unsupported_media_type")
    assert_serving()


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/generate/",
        "/health//",
        "/a//generate",
        "/%ff%00",
        "/static/x",
        "/" + "x" * 5000,
    ],
)
def test_another_path_is_refused(
    path: str,
    post: Callable[..., Any],
    assert_refused: Check,
    assert_serving: Callable[[], None],
) -> None:
    reply = post(b"{}", path=path)
    assert reply.status == 404
    assert_refused(reply, 404, "not_found")
    assert_serving()


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/generate", "POST"),
        ("PUT", "/generate", "POST"),
        ("DELETE", "/generate", "POST"),
        ("OPTIONS", "/generate", "POST"),
        ("BREW", "/generate", "POST"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("GET", "/stream", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
        ("OPTIONS", "/health", "GET, HEAD"),
    ],
)
def test_another_method_is_refused(
    method: str, path: str, allow: str, url: str
) -> None:
    answer = requests.request(method, url + path, timeout=TIMEOUT_S)
    assert answer.headers["Allow"] == allow
    assert answer.status_code == 405
    error = answer.json()["error"]
    assert error["code"] == "method_not_allowed"
    assert answer.headers["Content-Type"] == "application/json"


def test_the_model_fails_on_one_request(
    post: Callable[..., Any],
    assert_refused: Check,
    assert_serving: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = post(body(prompt="boom", max_new_tokens=1))
    assert_refused(reply, 500, "generation_failed")
    assert b"secret" not in reply.body
    assert "a secret of the server" in caplog.text
    assert_serving()


def test_an_unforeseen_error_is_json(
    backend: Any,
    post: Callable[..., Any],
    assert_refused: Check,
    assert_serving: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(text: str) -> list[int]:
        raise RuntimeError("a secret of the server")

    encode, backend.encode = backend.encode, fail
    reply = post(body(prompt="a", max_new_tokens=1))
    backend.encode = encode
    assert_refused(reply, 500, "internal_error")
    assert b"secret" not in reply.body
    assert "a secret of the server" in caplog.text
    assert_serving()


def test_health_before_the_model_is_ready(
    backend: Any, start_server: Start
) -> None:
    loaded = threading.Event()

    def load() -> Any:
        assert loaded.wait(TIMEOUT_S)
        return backend

    engine = SingleSlotEngine(load)
    url = start_server(engine)
    for answer in (
        requests.get(url + "/health", timeout=TIMEOUT_S),
        generate(url, prompt="a", max_new_tokens=1),
    ):
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "not_ready"
        assert int(answer.headers["Retry-After"]) >= 1
    loaded.set()
    engine.wait_until_ready(TIMEOUT_S)
    assert requests.get(url + "/health", timeout=TIMEOUT_S).status_code == 200
    assert generate(url, prompt="a", max_new_tokens=1).json()["text"] == "b"


def test_health_after_a_failed_load(start_server: Start) -> None:
    def load() -> Any:
        raise LabError("The model folder is empty; run fetch.")

    url = start_server(SingleSlotEngine(load))
    engine_failed = requests.get(url + "/health", timeout=TIMEOUT_S)
    while engine_failed.json()["error"]["code"] == "not_ready":
        engine_failed = requests.get(url + "/health", timeout=TIMEOUT_S)
    assert engine_failed.status_code == 503
    assert engine_failed.json()["error"] == {
        "code": "load_failed",
        "message": "The model folder is empty; run fetch.",
    }
    assert "Retry-After" not in engine_failed.headers


def test_two_at_once_both_get_their_answers(url: str, backend: Any) -> None:
    backend.gate.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = {
            letter: pool.submit(generate, url, prompt=letter, max_new_tokens=2)
            for letter in "acegikmo"
        }
        assert backend.started.wait(TIMEOUT_S)
        # Health answers although the model is busy and others wait.
        health = requests.get(url + "/health", timeout=TIMEOUT_S)
        assert health.status_code == 200
        assert not any(answer.done() for answer in asked.values())
        backend.gate.set()
    for letter, answer in asked.items():
        text = chr(ord(letter) + 1) + chr(ord(letter) + 2)
        assert answer.result().json()["text"] == text
    assert backend.overlaps == 0


def test_the_servers_own_limits_hold_too(engine: SingleSlotEngine) -> None:
    limits = Limits(max_body_bytes=60, context=8, vocabulary=100)
    client = create_app(engine, limits).test_client()

    def code(**fields: Any) -> str:
        answer = client.post("/generate", json=fields)
        assert answer.is_json
        return (
            answer.json.get("error", {}).get("code", "") if answer.json else ""
        )

    assert code(prompt="abcd", max_new_tokens=4) == ""
    assert code(prompt="abcd", max_new_tokens=5) == "over_context"
    assert code(prompt_ids=[100], max_new_tokens=1) == "id_outside_vocabulary"
    assert code(prompt="a" * 60, max_new_tokens=1) == "body_too_large"
