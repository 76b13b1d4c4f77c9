"""What the recorder keeps of a talk between a tool and a server."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

STREAM = (
    b'data: {"choices": [{"delta": {"role": "assistant", "content": ""},'
    b' "finish_reason": null}], "usage": null}\n\n'
    b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": "b"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": ""},'
    b' "finish_reason": "length"}]}\n\n'
    b'data: {"choices": [], "usage": {"total_tokens": 3}}\n\n'
)
DONE = b"data: [DONE]\n\n"


@pytest.fixture(scope="module")
def recorder(bench: Callable[[str], Any]) -> Any:
    return bench("record_session")


@pytest.fixture
def server() -> Iterator[str]:
    """Streams to POST, JSON to /v1/models, text to the rest."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            models = self.path == "/v1/models"
            body = b'{"data": [{"id": "m"}]}' if models else b"fine"
            kind = "application/json" if models else "text/plain"
            self.send_response(200 if models else 404)
            self._send(kind, body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self._send("text/event-stream", STREAM + DONE)

        def _send(self, kind: str, body: bytes) -> None:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


TOOL = """
import json, sys, urllib.request
def ask(path, body=None):
    request = urllib.request.Request(sys.argv[1] + path)
    request.add_header("Authorization", "Bearer secret")
    request.add_header("User-Agent", "somebody's machine")
    if body:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        return urllib.request.urlopen(request).read()
    except OSError as error:
        return error.read()
ask("/v1/models")
ask("/other")
for word in ("one", "two", "three"):
    said = ask("/v1/chat/completions", {
        "messages": [{"role": "user", "content": word}], "max_tokens": 2})
ask("/v1/chat/completions", {
    "messages": [{"role": "user", "content": "x"}], "max_tokens": 3})
sys.exit(0 if said.endswith(b"[DONE]\\n\\n") else 9)
"""


def test_a_session_is_recorded(
    recorder: Any,
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    tool, out = tmp_path / "tool.py", tmp_path / "session.json"
    tool.write_text(TOOL, encoding="utf-8")
    words = [server, str(out), "--tool", "mine 1", "--set", f"tool={tool}"]
    command = ["--", sys.executable, "{tool}", "{url}"]
    assert recorder.main([*words, *command]) == 0
    assert recorder.main([*words, "--append", *command]) == 0
    text = out.read_text(encoding="utf-8")
    for word in ("secret", "somebody", "User-Agent", str(tool)):
        assert word not in text
    session = json.loads(text)
    assert session["tool"] == "mine 1"
    first, second = session["runs"]
    assert first["exchanges"] == second["exchanges"]
    assert first["command"].endswith(" {tool} {url}")
    kept = [
        (each["request"]["path"], each["times"], each["answer"]["status"])
        for each in first["exchanges"]
    ]
    chat = "/v1/chat/completions"
    assert kept == [
        *(("/v1/models", 1, 200), ("/other", 1, 404)),
        *((chat, 1, 200), (chat, 2, 200), (chat, 1, 200)),
    ]
    models, other, one, *_ = first["exchanges"]
    assert models["request"]["headers"]["authorization"] == "Bearer KEY"
    assert models["answer"]["body"] == {"data": [{"id": "m"}]}
    assert other["answer"]["bytes"] == len(b"fine")
    assert one["request"]["body"]["messages"][0]["content"] == "one"
    assert one["answer"]["stream"]["text"] == "ab"


def test_the_status_of_the_tool_is_told(
    recorder: Any, server: str, tmp_path: Path
) -> None:
    out = tmp_path / "session.json"
    words = [server, str(out), "--tool", "mine 1", "--", sys.executable]
    assert recorder.main([*words, "-c", "raise SystemExit(3)"]) == 3
    run = json.loads(out.read_text(encoding="utf-8"))["runs"][0]
    assert (run["exit_status"], run["exchanges"]) == (3, [])


def test_the_shape_of_a_stream(recorder: Any) -> None:
    shape = recorder.shape_of_stream(STREAM + DONE)
    role, token, reason, usage = shape["events"]
    assert role["fields"] == [
        "choices[].delta.content",
        "choices[].delta.role",
    ]
    assert (token["times"], token["fields"]) == (
        2,
        ["choices[].delta.content"],
    )
    assert "choices[].finish_reason" in reason["fields"]
    assert usage["fields"] == ["choices", "usage.total_tokens"]
    assert shape["finish_reasons"] == ["length"]
    assert shape["usage"] == {"total_tokens": 3}
    assert shape["done"]
    assert not recorder.shape_of_stream(STREAM)["done"]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"a": None, "b": 0}, ["b"]),
        ({"a": [{"b": 1}, {"c": ""}]}, ["a[].b", "a[].c"]),
        ({"a": {}, "b": []}, ["a", "b"]),
        ([[1], [2]], ["[][]"]),
    ],
)
def test_the_fields_of_a_document(
    recorder: Any, document: Any, paths: list[str]
) -> None:
    assert recorder.fields(document) == paths
