"""POST /stream over a real socket: events, departures, full queues."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from labkit.serving.channel import KEPT_REQUESTS
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.interface import Failed, Load

TIMEOUT_S = 10
Start = Callable[[SingleSlotEngine], str]


@pytest.fixture
def engine(backend: Any) -> Iterator[SingleSlotEngine]:
    made = SingleSlotEngine(lambda: backend, max_waiting=2)
    made.wait_until_ready(TIMEOUT_S)
    yield made
    backend.gate.set()
    if backend.turns is not None:
        backend.turns.release(1000)


@pytest.fixture
def url(engine: SingleSlotEngine, start_server: Start) -> str:
    """A server whose engine the test holds as well."""
    return start_server(engine)


def parse(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Events of a stream, as (name, data)."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


@contextmanager
def streaming(url: str, path: str = "/stream", **body: Any) -> Iterator[Any]:
    """Events of a request that is open for as long as the block."""
    with requests.post(
        url + path, json=body, stream=True, timeout=TIMEOUT_S
    ) as reply:
        assert reply.status_code == 200, reply.text
        lines = reply.iter_lines(chunk_size=1, decode_unicode=True)
        yield parse(lines)


def eventually(check: Callable[[], bool]) -> None:
    """Wait until something holds that another thread is about to do."""
    deadline = time.monotonic() + TIMEOUT_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_one_event_for_each_token(url: str) -> None:
    with streaming(url, prompt="a", max_new_tokens=3) as events:
        got = list(events)
    names = [name for name, _ in got]
    assert names == ["start", "token", "token", "token", "done"]
    start, *tokens, done = [data for _, data in got]
    assert start["model"] == "scripted"
    assert start["prompt_tokens"] == 1
    assert [t["index"] for t in tokens] == [0, 1, 2]
    assert [t["id"] for t in tokens] == [98, 99, 100]
    assert [t["text"] for t in tokens] == ["b", "c", "d"]
    assert (done["reason"], done["new_tokens"]) == ("length", 3)
    times = [start["queued_ns"], start["start_ns"]]
    times += [data["time_ns"] for data in (*tokens, done)]
    assert times == sorted(times)


def test_tokens_arrive_one_by_one(url: str, backend: Any) -> None:
    """Each is sent before the next is computed."""
    backend.turns = threading.Semaphore(0)
    with streaming(url, prompt="a", max_new_tokens=20) as events:
        assert next(events)[0] == "start"
        for index in range(20):
            backend.turns.release()
            assert next(events)[1]["index"] == index
        assert next(events)[0] == "done"


def test_no_broken_character_is_shown(url: str, backend: Any) -> None:
    backend.answers = {b"a": "é€\U0001f600!".encode()}
    with streaming(url, prompt="a", max_new_tokens=10) as events:
        texts = [data["text"] for name, data in events if name == "token"]
    assert texts == ["", "é", "", "", "€", "", "", "", "\U0001f600", "!"]
    with streaming(url, prompt="a", max_new_tokens=4) as events:
        texts = [data["text"] for name, data in events if name == "token"]
    assert texts == ["", "é", "", ""]
    asked = {"prompt": "a", "max_new_tokens": 4}
    whole = requests.post(url + "/generate", json=asked, timeout=TIMEOUT_S)
    assert whole.json()["text"] == "é"


def test_a_stream_is_refused_like_any_request(url: str) -> None:
    for body, code in (
        ({"prompt": "a"}, "missing_max_new_tokens"),
        ({"prompt": "a" * 64, "max_new_tokens": 1}, "over_context"),
    ):
        reply = requests.post(url + "/stream", json=body, timeout=TIMEOUT_S)
        assert reply.status_code == 400
        assert reply.json()["error"]["code"] == code


def test_a_model_that_fails_before_and_after_the_start(
    url: str, backend: Any
) -> None:
    with streaming(url, prompt="boom", max_new_tokens=2) as events:
        got = list(events)
    assert [name for name, _ in got] == ["start", "error"]
    assert got[-1][1]["code"] == "generation_failed"
    assert "secret" not in str(got)


def test_a_full_queue_is_429(
    url: str, engine: SingleSlotEngine, backend: Any
) -> None:
    backend.gate.clear()
    asked = {"prompt": "a", "max_new_tokens": 1}

    def ask(path: str) -> requests.Response:
        return requests.post(url + path, json=asked, timeout=TIMEOUT_S)

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(ask, "/generate") for _ in range(3)]
        eventually(lambda: engine.load == Load(1, 2))
        for path in ("/generate", "/stream"):
            refused = ask(path)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "queue_full"
            assert int(refused.headers["Retry-After"]) >= 1
        health = requests.get(url + "/health", timeout=TIMEOUT_S)
        assert health.status_code == 200
        backend.gate.set()
    assert all(answer.result().status_code == 200 for answer in waiting)


def test_health_never_waits_behind_streams(
    backend: Any, start_server: Start
) -> None:
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    url = start_server(engine)
    backend.gate.clear()
    asked = {"prompt": "a", "max_new_tokens": 1}

    def ask(_: int) -> int:
        reply = requests.post(url + "/stream", json=asked, timeout=30)
        return reply.status_code

    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(ask, k) for k in range(40)]
        eventually(lambda: engine.load == Load(1, 32))
        health = requests.get(url + "/health", timeout=TIMEOUT_S)
        assert health.status_code == 200
        assert engine.load == Load(1, 32)
        backend.gate.set()
    codes = sorted(answer.result() for answer in answers)
    assert codes == [200] * 33 + [429] * 7


@pytest.mark.parametrize("path", ["/stream", "/generate"])
def test_a_client_that_goes_away_frees_the_slot(
    url: str,
    engine: SingleSlotEngine,
    backend: Any,
    path: str,
    assert_serving: Callable[[], None],
) -> None:
    ends: list[Any] = []
    engine.watch(lambda before, event: ends.append((before, event)))
    backend.turns = threading.Semaphore(3)
    body = b'{"prompt": "a", "max_new_tokens": 50}'
    with connect(url) as connection:
        connection.sendall(head(path, len(body)) + body)
        eventually(lambda: len(ends) == 5)  # queued, started, three tokens
        time.sleep(0.3)  # longer than a half-closed client is waited for
    time.sleep(0.1)  # the end of the connection arrives
    backend.turns.release()
    eventually(lambda: engine.load == Load(0, 0))
    before, failed = ends[-1]
    assert failed.refusal.code == "cancelled"
    assert before.new_tokens == 3
    assert backend.open == 0
    backend.turns = None
    assert_serving()


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("asked", [2, 3, 20])
def test_a_client_that_asked_ahead_and_goes_away_frees_the_slot(
    url: str, engine: SingleSlotEngine, backend: Any, asked: int, reset: bool
) -> None:
    """The end is noticed behind whatever else was sent."""
    ends: list[Any] = []
    engine.watch(lambda before, event: ends.append(event))
    backend.turns = threading.Semaphore(2)
    body = b'{"prompt": "a", "max_new_tokens": 50}'
    with connect(url) as connection:
        for _ in range(asked):
            connection.sendall(head("/generate", len(body)) + body)
            time.sleep(0.005)  # or the server reads all at once
        eventually(lambda: len(ends) == 4)  # queued, started, two tokens
        time.sleep(0.3)  # longer than a half-closed client is waited for
        if reset:
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
    time.sleep(0.1)  # the end of the connection arrives
    backend.turns.release(asked)
    eventually(lambda: engine.load == Load(0, 0))
    assert isinstance(ends[4], Failed)
    assert ends[4].refusal.code == "cancelled"


def test_what_is_asked_too_far_ahead_is_to_be_sent_again(
    url: str, engine: SingleSlotEngine, backend: Any
) -> None:
    backend.gate.clear()
    body = b'{"prompt": "a", "max_new_tokens": 2}'
    one = head("/generate", len(body)) + body
    with connect(url) as connection:
        connection.sendall(one * KEPT_REQUESTS)
        eventually(lambda: engine.load == Load(1, 0))
        connection.sendall(one + one[:-5])
        time.sleep(0.1)  # they arrive
        connection.sendall(one[-5:] + one)
        time.sleep(0.1)
        backend.gate.set()
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.count(b"HTTP/1.1 200") == KEPT_REQUESTS
    assert received.count(b'"text": "bc"') == KEPT_REQUESTS
    *_, last = received.split(b"HTTP/1.1 ")
    assert received.count(b"Connection: close") == 1
    assert b"Connection: close" in last
    assert len(backend.requests) == KEPT_REQUESTS


@pytest.mark.parametrize("path", ["/stream", "/generate"])
def test_a_client_that_goes_away_while_it_waits_leaves_the_queue(
    url: str, engine: SingleSlotEngine, backend: Any, path: str
) -> None:
    backend.gate.clear()
    with streaming(url, prompt="a", max_new_tokens=1):
        body = b'{"prompt": "b", "max_new_tokens": 50}'
        with connect(url) as connection:
            connection.sendall(head(path, len(body)) + body)
            eventually(lambda: engine.load == Load(1, 1))
            time.sleep(0.3)
        eventually(lambda: engine.load == Load(1, 0))
        backend.gate.set()
    eventually(lambda: engine.load == Load(0, 0))
    assert len(backend.requests) == 1


def test_a_half_closed_client_still_gets_its_answer(
    url: str, engine: SingleSlotEngine, backend: Any
) -> None:
    backend.gate.clear()
    body = b'{"prompt": "a", "max_new_tokens": 2}'
    with connect(url) as connection:
        connection.sendall(head("/generate", len(body)) + body)
        connection.shutdown(socket.SHUT_WR)
        eventually(lambda: engine.load == Load(1, 0))
        time.sleep(0.1)
        backend.gate.set()
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert b'"text": "bc"' in received


def test_a_reader_that_reads_nothing_holds_up_nobody(
    url: str, engine: SingleSlotEngine, assert_serving: Callable[[], None]
) -> None:
    body = b'{"prompt": "a", "max_new_tokens": 60}'
    with connect(url) as connection:
        connection.sendall(head("/stream", len(body)) + body)
        eventually(lambda: engine.load == Load(0, 0))
        assert_serving()


def connect(url: str) -> socket.socket:
    target = urlsplit(url)
    return socket.create_connection((target.hostname, target.port), TIMEOUT_S)


def head(path: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()
