"""A scripted model behind a real server, and ways to talk to it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import requests

from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.protocol import GenerateRequest
from labkit.serving.server import BackgroundServer

TIMEOUT_S = 10


class ScriptedBackend:
    """Bytes of UTF-8 are tokens; the answer counts on from the last one.

    `answers` holds other answers, by prompt; b"boom" raises. It notes the
    requests it got, how often two threads were inside `steps` at once, and
    how many generations were left open. `gate` holds a generation until it
    is set; `turns`, when there is one, is acquired before each step. The
    prefill has a step for each eight prompt tokens. Byte 4 ends an answer.
    """

    name = "scripted"
    context = 64
    vocabulary = 256
    end_ids = frozenset({4})

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Event()
        self.turns: threading.Semaphore | None = None
        self.answers: dict[bytes, bytes] = {}
        self.requests: list[GenerateRequest] = []
        self.overlaps = 0
        self.open = 0
        self._model = threading.Lock()

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("".join(each["content"] for each in messages))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        if not self._model.acquire(blocking=False):
            self.overlaps += 1
            raise AssertionError("two threads at once")
        self.open += 1
        try:
            yield from self._steps(request)
        finally:
            self.open -= 1
            self._model.release()

    def _steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        self.requests.append(request)
        self.started.set()
        assert self.gate.wait(TIMEOUT_S)
        time.sleep(0.0005)
        prompt = bytes(request.prompt_ids)
        if prompt == b"boom":
            raise ZeroDivisionError("a secret of the server")
        for _ in range((len(prompt) - 1) // 8):
            self._wait()
            yield None
        count_on = bytes((prompt[-1] + 1 + k) % 256 for k in range(256))
        answer = self.answers.get(prompt, count_on)
        for token in answer[: request.max_new_tokens]:
            self._wait()
            yield token
            if request.stop_at_end and token in self.end_ids:
                return

    def _wait(self) -> None:
        if self.turns is not None:
            assert self.turns.acquire(timeout=TIMEOUT_S)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `requests` from sending loopback through a proxy."""
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend()


@pytest.fixture
def start_server() -> Iterator[Callable[[SingleSlotEngine], str]]:
    """Put an engine behind a server on a free port; returns its URL."""
    servers: list[BackgroundServer] = []
    engines: list[SingleSlotEngine] = []

    def start(engine: SingleSlotEngine) -> str:
        engines.append(engine)
        servers.append(BackgroundServer(create_app(engine)).start())
        return servers[-1].url

    yield start
    for server in servers:
        server.stop()
    for engine in engines:
        assert engine.close()


@pytest.fixture
def url(
    backend: ScriptedBackend, start_server: Callable[[SingleSlotEngine], str]
) -> str:
    """A server that is ready, around `backend`."""
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    return start_server(engine)


@pytest.fixture
def raw(url: str) -> Callable[[bytes], bytes]:
    """Send bytes on a connection of their own, end it, read everything."""
    return lambda data: exchange(url, data)


def exchange(url: str, data: bytes) -> bytes:
    target = urlsplit(url)
    address = (target.hostname, target.port)
    received = bytearray()
    with socket.create_connection(address, TIMEOUT_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            received += chunk
    return bytes(received)


@pytest.fixture
def split_replies() -> Callable[[bytes], list[Reply]]:
    return parse_replies


def parse_replies(data: bytes) -> list[Reply]:
    """The HTTP answers in `data`, each with a Content-Length."""
    replies = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = int(headers["Content-Length"])
        assert len(data) >= length, "the answer was cut off"
        replies.append(Reply(int(first.split()[1]), headers, data[:length]))
        data = data[length:]
    return replies


@pytest.fixture
def assert_refused() -> Callable[[Reply, int, str], None]:
    return check_refusal


def check_refusal(reply: Reply, status: int, code: str) -> None:
    """One JSON error with this status and code, and nothing of the inside."""
    assert reply.status == status, reply.body
    assert reply.headers["Content-Type"] == "application/json"
    assert b"Traceback" not in reply.body
    assert b"<html" not in reply.body.lower()
    assert len(reply.body) < 400
    document = json.loads(reply.body)
    assert set(document) == {"error"}
    assert set(document["error"]) == {"code", "message"}
    assert document["error"]["code"] == code
    message = document["error"]["message"]
    assert message.endswith(".")
    assert "\n" not in message


@pytest.fixture
def post(url: str) -> Callable[..., Reply]:
    """POST a body to the server."""

    def send(
        body: bytes,
        content_type: str | None = "application/json",
        path: str = "/generate",
    ) -> Reply:
        headers = (
            {} if content_type is None else {"Content-Type": content_type}
        )
        answer = requests.post(
            url + path, data=body, headers=headers, timeout=TIMEOUT_S
        )
        return Reply(answer.status_code, answer.headers, answer.content)

    return send


@pytest.fixture
def assert_serving(url: str) -> Callable[[], None]:
    """The server is still there, and still right."""

    def check() -> None:
        health = requests.get(url + "/health", timeout=TIMEOUT_S)
        assert health.status_code == 200
        answer = requests.post(
            url + "/generate",
            json={"prompt": "a", "max_new_tokens": 2},
            timeout=TIMEOUT_S,
        )
        assert answer.json()["text"] == "bc"

    return check
