"""The socket: refusals below HTTP, large bodies, start and stop."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from flask import Flask

from labkit.errors import LabError
from labkit.serving import channel as channel_module
from labkit.serving import server as server_module
from labkit.serving.server import BackgroundServer, is_loopback, serve

TIMEOUT_S = 10
MIB = 1024 * 1024
HEAD = (
    b"POST /generate HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\n"
)
BODY = b'{"prompt": "a", "max_new_tokens": 1}'
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
Check = Callable[[Any, int, str], None]
Raw = Callable[[bytes], bytes]
Split = Callable[[bytes], list[Any]]


@pytest.fixture
def app() -> Flask:
    made = Flask("labkit", static_folder=None)

    @made.get("/")
    def index() -> dict[str, str]:
        return {"hello": "there"}

    @made.get("/slow")
    def slow() -> dict[str, str]:
        made.config["entered"].set()
        assert made.config["gate"].wait(TIMEOUT_S)
        return {"hello": "at last"}

    made.config.update(entered=threading.Event(), gate=threading.Event())
    return made


def test_the_last_byte_may_come_with_the_end(
    raw: Raw, split_replies: Split
) -> None:
    """A client that ends its side after a whole request is answered."""
    (reply,) = split_replies(raw(HEAD + LENGTH + BODY))
    assert (reply.status, b'"text": "b"' in reply.body) == (200, True)


def test_chunks_are_read(raw: Raw, split_replies: Split) -> None:
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:9], BODY[9:])
    )
    sent = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    (reply,) = split_replies(raw(sent))
    assert reply.status == 200


MALFORMED = {
    "no request line": b"hello\r\n\r\n",
    "binary": bytes(range(1, 256)) + b"\r\n\r\n",
    "lower-case method": b"get /health HTTP/1.1\r\n\r\n",
    "bare line feeds": b"GET /health HTTP/1.1\nHost: x\r\n\r\n",
    "no colon": b"GET /health HTTP/1.1\r\nHost\r\n\r\n",
    "folded first header": b"GET /health HTTP/1.1\r\n x: y\r\n\r\n",
    "long bad header": b"GET / HTTP/1.1\r\n" + b"x" * 9000 + b"\r\n\r\n",
    "bad target": b"GET http://[: HTTP/1.1\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "host in the target alone": b"GET http://localhost/ HTTP/1.1\r\n\r\n",
    "two hosts": HEAD + b"Host: localhost\r\n" + LENGTH + BODY,
    "negative length": HEAD + b"Content-Length: -5\r\n\r\n",
    "length in words": HEAD + b"Content-Length: ten\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\n" + LENGTH + BODY,
    "endless length": HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "bad chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
    "bad chunk end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_http_is_refused_in_json(
    sent: bytes,
    raw: Raw,
    split_replies: Split,
    assert_refused: Check,
    assert_serving: Callable[[], None],
) -> None:
    (reply,) = split_replies(raw(sent))
    assert_refused(reply, 400, "malformed_http")
    assert reply.headers["Connection"] == "close"
    assert_serving()


def test_the_first_http_knew_no_host(raw: Raw, split_replies: Split) -> None:
    (reply,) = split_replies(raw(b"GET /health HTTP/1.0\r\n\r\n"))
    assert reply.status == 200


def test_nothing_is_answered_behind_a_refusal(
    raw: Raw, split_replies: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop may see the end of what is sent once a refusal is written."""
    done = channel_module.HTTPChannel.service

    def service(channel: Any) -> None:
        done(channel)
        channel._refuse_incomplete()

    monkeypatch.setattr(channel_module.HTTPChannel, "service", service)
    sent = HEAD + b"Content-Length: -5\r\n\r\nGET"
    assert len(split_replies(raw(sent))) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"GET",
        b"GET /health HTTP/1.1\r\nHost: x\r\n",
        HEAD + b"Content-Length: 1000\r\n\r\n" + BODY,
        HEAD + b"Content-Length: 1000\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_a_truncated_request_is_refused(
    sent: bytes,
    raw: Raw,
    split_replies: Split,
    assert_refused: Check,
    assert_serving: Callable[[], None],
) -> None:
    (reply,) = split_replies(raw(sent))
    assert_refused(reply, 400, "incomplete_request")
    assert_serving()


def test_a_client_that_vanishes_is_no_problem(
    url: str, assert_serving: Callable[[], None]
) -> None:
    target = urlsplit(url)
    for sent in (b"", b"GET", HEAD + LENGTH, HEAD + LENGTH + BODY):
        address = (target.hostname, target.port)
        with socket.create_connection(address, TIMEOUT_S) as connection:
            connection.sendall(sent)
    assert_serving()


def test_a_body_without_a_length_is_not_read(
    raw: Raw, split_replies: Split, assert_refused: Check
) -> None:
    """HTTP takes it for the next request on the connection."""
    empty, next_request = split_replies(raw(HEAD + b"\r\n" + BODY))
    assert_refused(empty, 400, "empty_body")
    assert_refused(next_request, 400, "incomplete_request")


def test_other_encodings_are_refused(
    raw: Raw, split_replies: Split, assert_refused: Check
) -> None:
    sent = HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + BODY
    (reply,) = split_replies(raw(sent))
    assert_refused(reply, 501, "unsupported_transfer_encoding")


@pytest.mark.parametrize("size", [33 * 1024, 4 * MIB])
def test_long_headers_are_refused(
    size: int,
    raw: Raw,
    split_replies: Split,
    assert_refused: Check,
    assert_serving: Callable[[], None],
) -> None:
    sent = b"GET /health HTTP/1.1\r\nX: " + b"x" * size + b"\r\n\r\n"
    (reply,) = split_replies(raw(sent))
    assert_refused(reply, 431, "headers_too_large")
    assert_serving()


@pytest.mark.parametrize("size", [MIB + 1, 2_000_000, 40_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_readably(
    size: int,
    chunked: bool,
    post: Callable[..., Any],
    assert_refused: Check,
    assert_serving: Callable[[], None],
) -> None:
    piece = bytes(65536)
    pieces = (piece for _ in range(size // len(piece) + 1))
    reply = post(pieces if chunked else bytes(size))
    assert_refused(reply, 413, "body_too_large")
    assert b"at most 1048576 bytes" in reply.body
    assert_serving()


def test_the_largest_body_is_read(post: Callable[..., Any]) -> None:
    assert post(BODY + b" " * (MIB - len(BODY))).status == 200


def test_a_client_that_asks_first_is_told_at_once(
    url: str, split_replies: Split, assert_refused: Check
) -> None:
    target = urlsplit(url)
    address = (target.hostname, target.port)
    head = HEAD + b"Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n"
    received = bytearray()
    with socket.create_connection(address, TIMEOUT_S) as connection:
        connection.sendall(head)
        while chunk := connection.recv(65536):
            received += chunk
    (reply,) = split_replies(bytes(received))
    assert_refused(reply, 413, "body_too_large")


def test_a_smuggled_request_is_thrown_away(
    raw: Raw, split_replies: Split, assert_refused: Check
) -> None:
    head = HEAD + b"Content-Length: 9999999\r\n\r\n"
    (reply,) = split_replies(raw(head + b"GET /health HTTP/1.1\r\n\r\n" * 50))
    assert_refused(reply, 413, "body_too_large")


def test_draining_comes_to_an_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "DRAIN_S", 0.1)
    target = urlsplit(url)
    address = (target.hostname, target.port)
    deadline = time.monotonic() + TIMEOUT_S
    with socket.create_connection(address, TIMEOUT_S) as connection:
        connection.sendall(HEAD + b"Content-Length: 9999999999\r\n\r\n")
        with pytest.raises(OSError):
            while time.monotonic() < deadline:
                connection.sendall(bytes(1000))


def get(url: str, path: str = "/") -> requests.Response:
    return requests.get(url + path, timeout=TIMEOUT_S)


def test_the_server_runs_until_the_end_of_its_block(app: Flask) -> None:
    with BackgroundServer(app) as server:
        url = server.url
        assert get(url).json() == {"hello": "there"}
    with pytest.raises(requests.ConnectionError):
        get(url)
    with pytest.raises(LabError):
        _ = server.url


def test_start_and_stop_may_be_repeated(app: Flask) -> None:
    server = BackgroundServer(app)
    server.stop()
    assert server.start() is server
    url = server.url
    assert server.start().url == url
    assert get(url).ok
    server.stop()
    server.stop()
    assert not server.running
    with server:
        assert get(server.url).ok


def test_the_port_is_free_again_after_stop(app: Flask) -> None:
    # The side that closes first keeps the address for a while: the server,
    # where a session is still open.
    with requests.Session() as session:
        with BackgroundServer(app) as server:
            session.get(server.url, timeout=TIMEOUT_S)
            port = urlsplit(server.url).port or 0
        with BackgroundServer(app, port=port) as server:
            assert get(server.url).ok


def test_a_cell_that_runs_again_stops_its_first_server(app: Flask) -> None:
    server = BackgroundServer(app).start()
    first = server.url
    server = BackgroundServer(app).start()
    assert get(server.url).ok
    with pytest.raises(requests.ConnectionError):
        get(first)
    server.stop()


def test_stop_lets_a_running_request_end(app: Flask) -> None:
    answers: list[requests.Response] = []
    server = BackgroundServer(app).start()
    url = server.url
    asking = threading.Thread(target=lambda: answers.append(get(url, "/slow")))
    asking.start()
    assert app.config["entered"].wait(TIMEOUT_S)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    app.config["gate"].set()
    asking.join(TIMEOUT_S)
    stopping.join(TIMEOUT_S)
    assert answers[0].json() == {"hello": "at last"}


def test_stop_cuts_off_what_takes_too_long(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "STOP_S", 0.2)
    failures: list[Exception] = []

    def ask() -> None:
        try:
            get(url, "/slow")
        except requests.RequestException as error:
            failures.append(error)

    server = BackgroundServer(app).start()
    url = server.url
    asking = threading.Thread(target=ask)
    asking.start()
    assert app.config["entered"].wait(TIMEOUT_S)
    server.stop()
    asking.join(TIMEOUT_S)
    assert len(failures) == 1
    app.config["gate"].set()


def test_threads_end_with_the_server(app: Flask) -> None:
    before = set(threading.enumerate())
    with BackgroundServer(app) as server:
        get(server.url)
        started = set(threading.enumerate()) - before
        assert started
    for thread in started:
        thread.join(TIMEOUT_S)
    assert not any(thread.is_alive() for thread in started)


def test_a_thread_that_outlasts_the_server_wakes_nobody(app: Flask) -> None:
    with BackgroundServer(app) as server:
        stopped = server._server
        assert stopped is not None
    stopped.pull_trigger()


@pytest.mark.parametrize("kind", [RuntimeError, OSError])
def test_an_error_outside_the_application_is_json(
    app: Flask, kind: type[Exception]
) -> None:
    def fail(environ: Any, start_response: Any) -> Any:
        raise kind("a secret of the server")

    app.wsgi_app = fail  # type: ignore[method-assign]  # how Flask wraps WSGI
    with BackgroundServer(app) as server:
        answer = get(server.url)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "secret" not in answer.text


def test_a_refusal_waits_for_the_answers_before_it(
    app: Flask, split_replies: Split, assert_refused: Check
) -> None:
    size = 12 * MIB
    app.add_url_rule("/large", "large", lambda: bytes(size))
    received = bytearray()
    with BackgroundServer(app) as server, socket.socket() as connection:
        connection.settimeout(TIMEOUT_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.connect(("127.0.0.1", urlsplit(server.url).port))
        connection.sendall(
            b"GET /large HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n\r\n"
        )
        time.sleep(0.3)  # both are answered, and most of that is unsent
        while chunk := connection.recv(65536):
            received += chunk
    large, refused = split_replies(bytes(received))
    assert large.body == bytes(size)
    assert_refused(refused, 400, "malformed_http")


def test_silent_connections_shut_out_nobody(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as may be open, and none that ever sends a byte."""
    monkeypatch.setattr(channel_module, "SILENT_S", 0.1)
    monkeypatch.setattr(server_module, "CLEANUP_S", 0)
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 10)

    def ask(connection: HTTPConnection) -> int:
        connection.request("GET", "/")
        with connection.getresponse() as answer:
            answer.read()
        return answer.status

    with BackgroundServer(app) as server, ExitStack() as stack:
        address = ("127.0.0.1", urlsplit(server.url).port or 0)
        known = HTTPConnection(*address, timeout=TIMEOUT_S)
        stack.callback(known.close)
        known.connect()
        known.auto_open = 0  # it is to stay the same connection
        assert ask(known) == 200
        silent = [
            stack.enter_context(socket.create_connection(address, TIMEOUT_S))
            for _ in range(15)
        ]
        assert get(server.url).ok
        assert [connection.recv(1) for connection in silent] == [b""] * 15
        assert ask(known) == 200  # it may be silent for longer


def test_a_busy_port_is_one_sentence(app: Flask) -> None:
    with BackgroundServer(app) as server:
        port = urlsplit(server.url).port or 0
        for start in (
            BackgroundServer(app, port=port).start,
            lambda: serve(app, port=port),
        ):
            with pytest.raises(LabError, match=f"Port {port} on 127.0.0.1"):
                start()


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("no.such.host.invalid", 0),
        ("", 0),
        ("a" * 300, 0),
        ("127.0.0.1", -1),
        ("127.0.0.1", 65536),
    ],
)
def test_an_address_that_is_none(app: Flask, host: str, port: int) -> None:
    with pytest.raises(LabError):
        BackgroundServer(app, host=host, port=port).start()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_shut_out(app: Flask, host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(LabError, match="other machines"):
        BackgroundServer(app, host=host).start()
    with pytest.raises(LabError, match="other machines"):
        serve(app, host=host, port=0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_this_machine_is_let_in(host: str) -> None:
    assert is_loopback(host)


@pytest.fixture
def handlers_restored() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.usefixtures("handlers_restored")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_with_a_signal(app: Flask, number: signal.Signals) -> None:
    said: list[str] = []
    answers: list[Any] = []

    def say(line: str) -> None:
        said.append(line)
        url = line.split()[2]
        threading.Thread(target=ask, args=(url,)).start()

    def ask(url: str) -> None:
        answers.append(get(url).json())
        signal.raise_signal(number)

    serve(app, port=0, say=say)
    assert answers == [{"hello": "there"}]
    assert len(said) == 1


@pytest.mark.usefixtures("handlers_restored")
def test_serve_lets_requests_be_ended_before_it_closes(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "STOP_S", 0.2)
    answers: list[Any] = []
    asking: list[threading.Thread] = []

    def say(line: str) -> None:
        url = line.split()[2]
        asking.append(
            threading.Thread(target=lambda: answers.append(get(url, "/slow")))
        )
        asking[0].start()
        assert app.config["entered"].wait(TIMEOUT_S)
        signal.raise_signal(signal.SIGTERM)

    def finish() -> None:
        app.config["gate"].set()
        asking[0].join(TIMEOUT_S)

    serve(app, port=0, say=say, finish=finish)
    assert [answer.json() for answer in answers] == [{"hello": "at last"}]


@pytest.mark.usefixtures("handlers_restored")
@pytest.mark.parametrize(
    ("has_key", "words"), [(False, "no password"), (True, "with its key")]
)
def test_serve_warns_of_other_machines(
    app: Flask, has_key: bool, words: str
) -> None:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("Serving"):
            signal.raise_signal(signal.SIGINT)

    serve(
        app,
        host="0.0.0.0",
        port=0,
        allow_remote=True,
        has_key=has_key,
        say=say,
    )
    assert words in said[0]
    assert said[0].startswith("Warning: anyone who can reach 0.0.0.0")
    assert said[1].startswith("Serving on http://0.0.0.0:")


@pytest.mark.usefixtures("handlers_restored")
def test_serve_does_not_outlive_its_server(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module._Server, "run", lambda self: None)
    with pytest.raises(LabError, match="ended by itself"):
        serve(app, port=0, say=lambda line: None)
