"""HTTP as no client would send it: in pieces, damaged, several at once.

Whatever arrives, the server answers in well-formed HTTP or closes, gives no
more answers than it got requests, never fails itself, and serves on.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.serving import http

TIMEOUT_S = 5
END = b"\r\n\r\n"
# One server serves all examples of a test; none leaves a trace in it.
bounded = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    body: bytes


def answers(received: bytes) -> Iterator[Answer]:
    """The answers in `received`; AssertionError where HTTP is broken."""
    while received:
        head, end, received = received.partition(END)
        assert end, head
        first, *lines = head.decode("ascii").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.[01] (\d{3}) [\w' -]+", first)
        assert match, first
        status = int(match[1])
        if status == 100:
            assert not lines
            continue
        headers = dict(line.lower().split(": ", 1) for line in lines)
        assert len(headers) == len(lines), head
        if headers.get("transfer-encoding") == "chunked":
            body, received = unchunked(received)
        else:
            length = int(headers.get("content-length", len(received)))
            assert len(received) >= length
            body, received = received[:length], received[length:]
        yield Answer(status, headers["content-type"], body)


def unchunked(data: bytes) -> tuple[bytes, bytes]:
    """A chunked body, and what follows it."""
    body = b""
    while True:
        size, end, data = data.partition(b"\r\n")
        assert end, "cut off"
        length = int(size, 16)
        assert data[length : length + 2] == b"\r\n"
        body, chunk = body + data[:length], data[:length]
        data = data[length + 2 :]
        if not chunk:
            return body, data


def talk(url: str, pieces: Sequence[bytes], *, half_close: bool) -> bytes:
    """Send the pieces one by one, and read until the server closes."""
    target = urlsplit(url)
    received = bytearray()
    with socket.create_connection(
        (target.hostname, target.port), TIMEOUT_S
    ) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index, piece in enumerate(pieces):
            if index:
                time.sleep(0.001)  # or the server may read both at once
            connection.sendall(piece)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            received += chunk
    return bytes(received)


def check(answer: Answer) -> None:
    """One that may be an answer to anything at all."""
    assert answer.status < 500 or answer.status == 501, answer
    assert b"Traceback" not in answer.body
    if answer.status >= 400:
        assert answer.kind == "application/json"
        assert len(answer.body) < 500
    if answer.kind == "application/json":
        json.loads(answer.body)
    else:
        known = ("text/event-stream", "text/html", "text/plain")
        assert answer.kind.startswith(known), answer


def check_answers(url: str, sent: bytes, cuts: Sequence[int]) -> None:
    """Whatever was sent: an answer or more, but no more than requests."""
    found = list(answers(talk(url, in_pieces(sent, cuts), half_close=True)))
    # A request ends its headers so; one that was cut off may not have.
    assert len(found) <= sent.count(END) + 1
    assert found or not sent.strip(b"\r\n")
    for answer in found:
        check(answer)


# What is sent ---------------------------------------------------------------


def chunked(body: bytes, sizes: Sequence[int], *, trailer: bytes) -> bytes:
    """`body` in chunks of about these sizes, and a trailer section."""
    made = b""
    for size in (*sizes, len(body)):
        part, body = body[:size], body[size:]
        if part:
            made += b"%x;why=not\r\n%s\r\n" % (len(part), part)
    return made + b"0\r\n" + trailer + b"\r\n"


def in_pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut at these places, each counted from the beginning or modulo."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    ends = [*places, len(data)]
    starts = [0, *places]
    return [data[a:b] for a, b in zip(starts, ends, strict=True) if a < b]


CUTS = st.lists(st.integers(0, 10_000), max_size=4)
SIZES = st.lists(st.integers(1, 30), max_size=4)
TRAILERS = st.sampled_from([b"", b"", b"X-After: 1\r\n"])


@dataclass(frozen=True)
class Good:
    """A request that is right, and what its answer has to hold."""

    sent: bytes
    expected: dict[str, Any]


@st.composite
def good_requests(draw: st.DrawFn, *, last: bool) -> Good:
    first = draw(st.integers(97, 110))
    count = draw(st.integers(1, 4))
    text = "".join(chr(first + 1 + k) for k in range(count))
    path = draw(st.sampled_from(["/generate", "/v1/completions", "/health"]))
    close = b"Connection: close\r\n" if last else b""
    head = b"Host: localhost\r\n" + close
    if path == "/health":
        sent = b"GET /health HTTP/1.1\r\n" + head + b"\r\n"
        return Good(sent, {"status": "ok"})
    name = "max_new_tokens" if path == "/generate" else "max_tokens"
    body = json.dumps({"prompt": chr(first), name: count}).encode()
    head += b"Content-Type: application/json\r\n"
    if draw(st.booleans()):
        rest = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    else:
        parts = chunked(body, draw(SIZES), trailer=draw(TRAILERS))
        rest = b"Transfer-Encoding: chunked\r\n\r\n" + parts
    sent = b"POST %s HTTP/1.1\r\n%s%s" % (path.encode(), head, rest)
    if path == "/generate":
        return Good(sent, {"text": text})
    usage = {"prompt_tokens": 1, "completion_tokens": count}
    return Good(sent, {"usage": usage | {"total_tokens": count + 1}})


@st.composite
def good_pipelines(draw: st.DrawFn) -> list[Good]:
    before = draw(st.lists(good_requests(last=False), max_size=4))
    return [*before, draw(good_requests(last=True))]


LINES = [
    *(b"POST /generate HTTP/1.1", b"POST /stream HTTP/1.1"),
    *(b"POST /v1/completions HTTP/1.0", b"GET /health HTTP/1.1"),
    *(b"GET http://localhost/metrics HTTP/1.1", b"PUT / HTTP/1.1"),
    *(b"POST //generate HTTP/1.1", b"GET /%2e%00%ff?a=b HTTP/1.1"),
    *(b"OPTIONS * HTTP/1.1", b"CONNECT localhost:1 HTTP/1.1"),
    *(b"GET /health", b"get /health http/1.1", b"GET /health HTTP/2.0"),
    b"GET http://[ HTTP/1.1",
]
HEADERS = [
    *(b"Host: localhost", b"Host: [::1", b"Host: localhost:99999"),
    *(b"Content-Type: application/json", b"Content-Type: ;;charset=,"),
    *(b"Content-Length: 36", b"Content-Length: 1", b"Content-Length: -1"),
    *(b"Content-Length: 0x24", b"Content-Length: 36, 36"),
    b"Content-Length: " + b"9" * 5000,
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, chunked"),
    *(b"Transfer-Encoding: gzip", b"Transfer-Encoding : chunked"),
    *(b"Expect: 100-continue", b"Connection: keep-alive, upgrade"),
    *(b"Upgrade: h2c", b"Connection: close", b"Origin: null"),
    *(b"Authorization: Bearer \xff", b"Cookie: a=\x01", b" folded: 1"),
    *(b"X: " + b"y" * 300, b": nameless", b"no colon", b"Range: bytes=0-0"),
]
BODY = b'{"prompt": "a", "max_new_tokens": 1}'
BODIES = [
    *(BODY, BODY, BODY[:-1], b"", b"24\r\n" + BODY + b"\r\n0\r\n\r\n"),
    *(b"ffffffffffffffff\r\n", b"-1\r\n\r\n", b"24 \r\n" + BODY),
    b"2\r\n{}\r\n0\r\nContent-Length: 3\r\n\r\n",
]


@st.composite
def odd_requests(draw: st.DrawFn) -> bytes:
    """One whose parts are each right, or nearly so."""
    usual = [b"Host: localhost", b"Content-Type: application/json"]
    usual += draw(st.lists(st.sampled_from(HEADERS), max_size=2))
    lines = [draw(st.sampled_from(LINES)), *draw(st.permutations(usual))]
    body = draw(st.sampled_from(BODIES))
    if draw(st.booleans()):
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + END + body


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Some requests in one, with bytes replaced, dropped and put in."""
    whole = bytearray(b"".join(draw(st.lists(odd_requests(), max_size=3))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 4]))):
        start = draw(st.integers(0, len(whole)))
        length = draw(st.integers(0, 3))
        whole[start : start + length] = draw(st.binary(max_size=3))
    return bytes(whole)


# What comes back ------------------------------------------------------------


@bounded
@given(pipeline=good_pipelines(), cuts=CUTS, half_close=st.booleans())
def test_each_good_request_has_its_answer_in_turn(
    url: str, pipeline: list[Good], cuts: list[int], half_close: bool
) -> None:
    sent = b"".join(each.sent for each in pipeline)
    pieces = in_pieces(sent, cuts)
    found = list(answers(talk(url, pieces, half_close=half_close)))
    assert [answer.status for answer in found] == [200] * len(pipeline)
    for answer, good in zip(found, pipeline, strict=True):
        assert json.loads(answer.body).items() >= good.expected.items()


@bounded
@given(sent=damaged(), cuts=CUTS)
def test_damaged_requests(url: str, sent: bytes, cuts: list[int]) -> None:
    check_answers(url, sent, cuts)


@bounded
@given(sent=st.binary(max_size=300), cuts=CUTS)
def test_any_bytes(url: str, sent: bytes, cuts: list[int]) -> None:
    check_answers(url, sent, cuts)


def test_an_answer_is_not_lost_when_more_was_sent(url: str) -> None:
    """The last answer arrives, and then the end; nothing resets it."""
    asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close"
    pieces = [asked + END, *[b"more of it" * 1000] * 20]
    (answer,) = answers(talk(url, pieces, half_close=True))
    assert (answer.status, json.loads(answer.body)["status"]) == (200, "ok")


def test_a_request_of_two_lengths_is_refused(url: str) -> None:
    """A proxy in front may take another one for its length."""
    body = chunked(BODY, [], trailer=b"")
    lengths = [
        b"Transfer-Encoding: chunked",
        b"Content-Length: %d" % len(body),
    ]
    for pair in (lengths, lengths[::-1]):
        head = [b"POST /generate HTTP/1.1", b"Host: localhost", *pair]
        head += [b"Content-Type: application/json"]
        sent = b"\r\n".join(head) + END + body
        (answer,) = answers(talk(url, [sent * 2], half_close=True))
        assert answer.status == 400
        assert json.loads(answer.body)["error"]["code"] == "malformed_http"


@pytest.mark.parametrize("path", [b"/v1//models", b"/v1/models/", b"/x/../"])
def test_no_path_leads_to_another(url: str, path: bytes) -> None:
    sent = b"GET " + path + b" HTTP/1.1\r\nHost: localhost" + END
    (answer,) = answers(talk(url, [sent], half_close=True))
    assert (answer.status, answer.kind) == (404, "application/json")


@bounded
@given(sent=st.lists(odd_requests(), min_size=1, max_size=2))
def test_whoever_leaves_without_a_word(url: str, sent: list[bytes]) -> None:
    target = urlsplit(url)
    with socket.create_connection(
        (target.hostname, target.port), TIMEOUT_S
    ) as connection:
        connection.sendall(b"".join(sent))


@pytest.fixture(autouse=True)
def serves_on(
    assert_serving: Callable[[], None],
    backend: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    # However slow this machine is, who ends its side is still there.
    monkeypatch.setattr(http, "HALF_CLOSE_S", 60.0)
    yield
    assert_serving()
    assert (backend.open, backend.overlaps) == (0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Type: a\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: a\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    ],
)
def test_a_broken_answer_is_noticed(broken: bytes) -> None:
    with pytest.raises(AssertionError):
        list(answers(broken))
