"""The client over real sockets: what servers do becomes data."""

from __future__ import annotations

import errno
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.loadtest import exchange, laws, metrics
from labkit.loadtest.client import Client
from labkit.loadtest.exchange import Timeouts
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.openai_target import OpenAITarget
from labkit.loadtest.records import FAILURES, Arrival, Record, Request
from labkit.loadtest.targets import Fault, Target
from labkit.loadtest.timelines import Step, TimeLine, one_by_one
from labkit.loadtest.wire import Address, Connection, Wire, post

ASK = Request("m000", 4, text="a")
PATIENT = Timeouts(10, 30, 30)
HASTY = Timeouts(10, 30, 1)
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def line(*steps: tuple[Any, ...]) -> TimeLine:
    return TimeLine(tuple(Step(*step) for step in steps))


SCRIPT = {
    "role first": one_by_one([20, 30], 2),
    "single": one_by_one([10, 20, 30, 40]),
    "chunks": line(
        (5, "start"), (10, "tokens"), (30, "tokens", 3), (30, "done")
    ),
    "one token": one_by_one([10]),
    "comments": line(
        *((1, "comment"), (5, "start"), (10, "comment"), (20, "tokens")),
        *((25, "comment"), (30, "tokens"), (30, "done")),
    ),
    "no token": line((5, "start"), (10, "done")),
    "nothing": line((5, "end")),
    "error": line((5, "tokens"), (15, "tokens"), (20, "error")),
    "error goes on": line((5, "tokens"), (6, "error"), (7, "done")),
    "just ends": line((5, "tokens"), (15, "tokens"), (20, "end")),
    "cut": line((5, "tokens"), (15, "tokens"), (20, "cut")),
    "burst": line((5, "start"), (30, "tokens", 20), (30, "done")),
    "after done": line((5, "tokens"), (6, "done"), (16, "tokens")),
    "no json": line((5, "tokens"), (15, "raw", None, "data: {oops\n\n")),
    "no object": line((5, "tokens"), (15, "raw", None, "data: [1]\n\n")),
    "other event": line(
        *((5, "raw", None, "event: later\ndata: {}\n\n"), (9, "tokens")),
        (9, "done"),
    ),
}


def test_every_time_line_is_read_as_it_was_written(
    serve: Callable[..., Any],
    target_at: Callable[[str], Target],
    replay: Callable[..., Record],
    assert_true_to: Callable[..., None],
) -> None:
    player = serve(list(SCRIPT.values()))
    target = target_at(player.url)
    with Client(target, PATIENT, keep_alive=True) as client:
        for name, script in SCRIPT.items():
            seen: list[Arrival] = []
            record = client.send(
                Request(name.replace(" ", "_"), 4, text="a"),
                on_arrival=partial(keep, seen),
            )
            exact = replay(script, target)
            assert record.failure == exact.failure, name
            assert record.failure is None or record.failure in FAILURES
            assert list(map(shape, record.arrivals)) == list(
                map(shape, exact.arrivals)
            ), name
            assert record.new_tokens == exact.new_tokens
            assert record.counted == exact.counted
            assert seen == list(record.arrivals)
            assert laws.violations([record]) == []
            unknown = record.counted != "ids" and name in ("burst", "chunks")
            if not unknown and name != "after done":
                assert_true_to(record, player.played[-1])


def keep(seen: list[Arrival], _: str, arrival: Arrival) -> None:
    seen.append(arrival)


def shape(arrival: Arrival) -> tuple[Any, ...]:
    return arrival.kind, arrival.ids, arrival.tokens, arrival.text


def test_a_count_that_disagrees_is_a_failure(
    serve: Callable[..., Any],
) -> None:
    player = serve([line((5, "tokens"), (6, "done", 7))])
    record = ask(LabTarget(player.url))
    assert record.failure == "count_mismatch"
    assert "7" in record.message


def test_a_token_that_is_missing_is_a_failure(
    serve: Callable[..., Any],
) -> None:
    event = 'event: token\ndata: {"index": 1, "id": 5, "text": "x"}\n\n'
    player = serve([line((5, "raw", None, event), (6, "done", 1))])
    assert ask(LabTarget(player.url)).failure == "count_mismatch"


@pytest.mark.parametrize("status", [301, 400, 429, 500, 503, 599, 204])
def test_a_refusal_is_a_failure(
    serve: Callable[..., Any], status: int
) -> None:
    refused = TimeLine((Step(0, "raw", text="Not\nnow\x1b"),), status)
    record = ask(LabTarget(serve([refused]).url))
    assert (record.failure, record.status) == (f"http_{status}", status)
    assert record.message == ("" if status == 204 else "Not now?")
    assert record.arrivals == ()


def test_redirects_are_not_followed(raw_server: Callable[..., str]) -> None:
    url = raw_server(
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
        b"Content-Length: 0\r\n\r\n"
    )
    assert ask(LabTarget(url)).failure == "http_302"


def test_a_reset_is_a_failure(serve: Callable[..., Any]) -> None:
    player = serve([line((5, "tokens"), (15, "reset"))])
    assert ask(LabTarget(player.url)).failure == "connection"


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    record = ask(LabTarget(f"http://127.0.0.1:{port}"))
    assert record.failure == "connection"
    assert record.connected_ns is None
    assert record.sent_ns <= record.end_ns
    assert laws.violations([record]) == []


def test_a_name_that_is_not_known_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    sent: list[int] = []
    with Client(LabTarget("http://nowhere.invalid")) as client:
        record = client.send(ASK, on_sent=lambda _, ns: sent.append(ns))
    assert (record.failure, record.connected_ns) == ("connection", None)
    assert sent == [record.sent_ns]
    assert 0 < record.sent_ns <= record.end_ns


def test_another_address_of_the_host_is_tried(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    player = serve([one_by_one([5, 10])])
    good = Address.of(player.url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = free.getsockname()
    find = socket.getaddrinfo

    def both(host: str, port: int, **options: Any) -> Any:
        return find(*dead, **options) + find(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", both)
    record = ask(LabTarget(f"http://{good.host}:{good.port}"))
    assert record.ok, record.message
    assert record.connected_ns is not None
    assert record.sent_ns < record.connected_ns


def test_a_request_is_sent_when_nothing_but_connecting_is_left(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and sockets wait for the interpreter: that is not the server's
    time."""
    log: list[str] = []
    ticks = itertools.count(1)

    def logged(owner: Any, name: str) -> None:
        done = getattr(owner, name)

        def call(*values: Any, **options: Any) -> Any:
            log.append(name)
            return done(*values, **options)

        monkeypatch.setattr(owner, name, call)

    def clock() -> int:
        log.append("clock")
        return next(ticks)

    player = serve([one_by_one([5])])
    logged(socket, "getaddrinfo")
    logged(Wire, "__init__")
    logged(Wire, "connect")
    logged(Wire, "send")
    sent = Client(LabTarget(player.url), clock=clock).send(ASK)
    assert sent.ok
    assert log[:4] == ["getaddrinfo", "__init__", "clock", "connect"]
    assert sent.sent_ns == 1
    # The stamp of the connection is the last thing before the request.
    place = log.index("send")
    assert log[place - 1] == "clock"
    assert sent.connected_ns == log[:place].count("clock")


def test_waiting_ends(serve: Callable[..., Any]) -> None:
    script = line((5, "start"), (6, "tokens"), (7, "hang"))
    record = ask(LabTarget(serve([script]).url), HASTY)
    assert (record.failure, record.status) == ("timeout", 200)
    assert "reading" in record.message


def test_the_first_byte_has_a_limit_of_its_own(
    serve: Callable[..., Any],
) -> None:
    late = TimeLine((Step(3000, "tokens"), Step(3000, "done")), head_ms=3000)
    record = ask(LabTarget(serve([late]).url), Timeouts(10, 0.2, 30))
    assert (record.failure, record.status) == ("timeout", None)
    assert "first byte" in record.message
    # What comes after the first byte may take longer than that.
    player = serve([line((1, "start"), (1500, "tokens"), (1500, "done"))])
    assert ask(LabTarget(player.url), Timeouts(10, 1, 30)).ok


def test_an_endless_drip_ends(raw_server: Callable[..., str]) -> None:
    """A byte now and then does not keep the whole from its time-out."""
    url = raw_server(HEAD, drip=b"1\r\n:\r\n")
    assert ask(LabTarget(url), HASTY).failure == "timeout"


def test_a_stream_that_stays_open_after_its_last_event(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "AFTER_LAST_S", 0.1)
    opened: list[Connection] = []

    def connect(*what: Any) -> Connection:
        opened.append(Connection(*what))
        return opened[-1]

    monkeypatch.setattr(exchange, "Connection", connect)
    player = serve([line((5, "tokens"), (6, "done"), (6, "hang"))])
    record = ask(LabTarget(player.url))
    assert record.ok
    assert record.end_ns == record.arrivals[-1].time_ns
    wire = opened[0].wire
    assert wire.deadline_ns == wire.received_ns + 100_000_000


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


TOKEN = chunk(b'event: token\ndata: {"id": 1}\n\n') + chunk(
    b'event: done\ndata: {"new_tokens": 1}\n\n'
)
DONE = chunk(b'event: done\ndata: {"new_tokens": 0}\n\n')


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"", "connection"),
        (b"\x00\xff\xfe binary", "bad_http"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "bad_http"),
        (b"HTTP/1.1 abc\r\n\r\n", "bad_http"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "bad_http"),
        (b"HTTP/1.1 200 " + b"x" * 70_000, "bad_http"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "bad_http"),
        (
            HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"),
            "bad_http",
        ),
        (HEAD, "no_terminal_event"),
        (HEAD + b"zz\r\n", "no_terminal_event"),
        (HEAD + b"-5\r\nabcde\r\n", "no_terminal_event"),
        (HEAD + b"ffffff\r\nshort", "no_terminal_event"),
        (HEAD + b"9" * 70_000, "bad_http"),
        (HEAD + chunk(b"data: \xff\xfe\n\n"), "malformed"),
        (HEAD + chunk(b"event: token\ndata: {}\n\n"), "malformed"),
        (HEAD + chunk(b'event: token\ndata: {"id": true}\n\n'), "malformed"),
        (HEAD + chunk(b'event: token\ndata: {"id": -1}\n\n'), "malformed"),
        (
            HEAD + chunk(b'event: done\ndata: {"new_tokens": "4"}\n\n'),
            "malformed",
        ),
        (
            HEAD + chunk(b"event: done\ndata: " + b"[" * 9999 + b"\n\n"),
            "malformed",
        ),
        (HEAD + chunk(b"data: " + b"x" * 2_000_000), "too_large"),
        (HEAD + DONE + b"0\r\n\r\n", "no_token"),
        (HEAD + DONE, "no_token"),
    ],
)
def test_what_is_no_stream_is_a_failure(
    raw_server: Callable[..., str], answer: bytes, failure: str
) -> None:
    record = ask(LabTarget(raw_server(answer)))
    assert record.failure == failure, record.message
    assert "\n" not in record.message
    assert len(record.message) < 300


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_EVENTS", 3), ("MAX_ANSWER_BYTES", 500)]
)
def test_an_answer_is_bounded(
    serve: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
) -> None:
    monkeypatch.setattr(exchange, limit, value)
    player = serve([one_by_one(range(1, 20))])
    record = ask(LabTarget(player.url))
    assert record.failure == "too_large"
    assert len(record.arrivals) <= 6


def test_usage_that_comes_with_the_finish_alone() -> None:
    """As some servers send it: it does not turn into tokens there."""
    reading = OpenAITarget("http://127.0.0.1:9", "m").reading()
    parts = [
        '{"choices": [{"delta": {"content": "a b"}}]}',
        '{"choices": [{"delta": {}, "finish_reason": "stop"}],'
        ' "usage": {"completion_tokens": 3, "prompt_tokens": 8}}',
        "[DONE]",
    ]
    arrivals = [reading.feed("message", part, 1) for part in parts]
    reading.check()
    assert [a.tokens for a in arrivals if a] == [1, 0, 0]
    assert (reading.new_tokens, reading.prompt_tokens) == (3, 8)
    assert reading.counted == "usage"


def test_an_error_stays_one_when_the_stream_goes_on() -> None:
    reading = OpenAITarget("http://127.0.0.1:9", "m").reading()
    parts = [
        '{"choices": [{"text": "a"}]}',
        '{"error": {"message": "out of\\nmemory"}}',
        "[DONE]",
    ]
    arrivals = [reading.feed("message", part, 1) for part in parts]
    assert [a.kind for a in arrivals if a] == ["token", "error"]
    with pytest.raises(Fault, match="out of memory") as caught:
        reading.check()
    assert caught.value.code == "error_event"


def test_one_chunk_may_have_everything() -> None:
    reading = OpenAITarget("http://127.0.0.1:9", "m").reading()
    whole = (
        '{"choices": [{"text": "a b c", "finish_reason": "stop"}],'
        ' "usage": {"completion_tokens": 3}}'
    )
    arrival = reading.feed("message", whole, 1)
    assert arrival is not None
    assert (arrival.kind, arrival.tokens) == ("token", 3)


def test_running_counts_of_llama_cpp() -> None:
    reading = OpenAITarget("http://127.0.0.1:9", "m").reading()
    parts = [
        '{"choices": [{"text": "a"}], "timings": {"predicted_n": 1}}',
        '{"choices": [{"text": ""}], "timings": {"predicted_n": 2}}',
        '{"choices": [{"text": "cd"}], "timings": {"predicted_n": 4}}',
        "[DONE]",
    ]
    arrivals = [reading.feed("message", part, 1) for part in parts]
    reading.check()
    assert [a.tokens for a in arrivals if a] == [1, 1, 2, 0]
    assert [a.kind for a in arrivals if a][:3] == ["token"] * 3


def test_ids_count_where_they_are_sent() -> None:
    reading = OpenAITarget("http://127.0.0.1:9", "m").reading()
    parts = [
        '{"choices": [{"text": "a", "token_ids": [5, 6]}]}',
        '{"choices": [{"text": "b", "token_ids": [7]}]}',
        '{"choices": [], "usage": {"completion_tokens": 4}}',
        "[DONE]",
    ]
    arrivals = [reading.feed("message", part, 1) for part in parts]
    assert [a.ids for a in arrivals if a][:2] == [(5, 6), (7,)]
    assert reading.counted == "ids"
    with pytest.raises(Fault, match="counted 4, and 3 arrived"):
        reading.check()


def test_a_connection_is_used_again(serve: Callable[..., Any]) -> None:
    player = serve([one_by_one([5, 10])])
    with Client(LabTarget(player.url), keep_alive=True) as client:
        records = [
            client.send(Request(f"m{k}", 2, text="a")) for k in range(3)
        ]
    assert [r.connected_ns is None for r in records] == [False, True, True]
    assert len({played.accepted_ns for played in player.played}) == 1
    for record in records:
        assert record.ok
        after = metrics.ttft_after_connect_ms(record)
        ttft = metrics.ttft_ms(record)
        assert after is not None
        assert ttft is not None
        assert (after == ttft) == (record.connected_ns is None)


def test_without_keep_alive_each_has_its_own(
    serve: Callable[..., Any],
) -> None:
    player = serve([one_by_one([5])])
    with Client(LabTarget(player.url)) as client:
        records = [
            client.send(Request(f"m{k}", 1, text="a")) for k in range(2)
        ]
    assert all(r.ok and r.connected_ns is not None for r in records)
    assert len({played.accepted_ns for played in player.played}) == 2


def test_an_idle_connection_that_was_closed_is_left(
    raw_server: Callable[..., str],
) -> None:
    url = raw_server(HEAD + TOKEN + b"0\r\n\r\n")  # and closes
    with Client(LabTarget(url), PATIENT, keep_alive=True) as client:
        first = client.send(ASK)
        client._idle[0].wire._socket.settimeout(10)
        client._idle[0].wire._socket.recv(1, socket.MSG_PEEK)  # the end
        second = client.send(ASK)
    assert first.ok
    assert second.ok
    assert second.connected_ns is not None


def test_a_connection_that_will_close_is_not_kept(
    raw_server: Callable[..., str],
) -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    url = raw_server(head + TOKEN + b"0\r\n\r\n")
    with Client(LabTarget(url), PATIENT, keep_alive=True) as client:
        assert client.send(ASK).ok
        assert not client._idle


def test_many_threads_share_a_client(
    serve: Callable[..., Any], assert_true_to: Callable[..., None]
) -> None:
    player = serve([one_by_one([20 * k for k in range(1, 8)])])
    asked = [Request(f"m{k:03}", 7, text="a") for k in range(24)]
    with (
        Client(LabTarget(player.url), PATIENT, keep_alive=True) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        records = list(pool.map(client.send, asked))
    by_name = {played.request: played for played in player.played}
    assert [r.request for r in records] == [r.name for r in asked]
    for record in records:
        assert record.ok, record.message
        assert_true_to(record, by_name[record.request])
    assert laws.violations(records) == []


def test_events_that_came_together_share_their_stamp(
    serve: Callable[..., Any],
) -> None:
    """However long it takes to parse the one before."""
    ticks = itertools.count(10**18)
    player = serve([line((5, "tokens", 5), (5, "done"))])
    with Client(
        LabTarget(player.url), PATIENT, clock=lambda: next(ticks)
    ) as client:
        record = client.send(ASK, on_arrival=lambda *_: next(ticks))
    assert record.ok
    stamps = {a.time_ns for a in record.arrivals if a.kind == "token"}
    assert len(stamps) == 1


def test_bytes_are_stamped_as_they_leave_the_socket() -> None:
    log: list[str] = []

    def clock() -> int:
        log.append("clock")
        return len(log)

    ours, theirs = socket.socketpair()
    with theirs:
        wire = Wire(ours, 10**12, clock)
        reader = wire.makefile("rb")
        theirs.sendall(b"line\nrest")
        assert reader.readline() == b"line\n"
        stamped = wire.received_ns
        assert stamped == len(log)
        theirs.sendall(b"second")
        assert reader.read1(100) == b"rest"  # was in: no new stamp
        assert wire.received_ns == stamped
        assert reader.read1(100) == b"second"
        assert wire.received_ns == len(log) > stamped
        reader.close()
        wire.close()


def test_hooks_come_in_order(serve: Callable[..., Any]) -> None:
    log: list[Any] = []
    player = serve([one_by_one([5, 10])])
    with Client(LabTarget(player.url)) as client:
        record = client.send(
            ASK,
            due_ns=17,
            on_sent=lambda name, ns: log.append((name, ns)),
            on_arrival=lambda name, arrival: log.append((name, arrival)),
        )
    assert log == [
        ("m000", record.sent_ns),
        *(("m000", arrival) for arrival in record.arrivals),
    ]
    assert record.due_ns == 17


def test_no_proxy_is_used(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert ask(LabTarget(serve([one_by_one([1])]).url)).ok


def test_bodies_are_what_the_routes_take() -> None:
    ids, text = Request("m", 3, prompt_ids=(1, 2)), Request("m", 3, text="a")
    lab = LabTarget("http://127.0.0.1:8001")
    assert lab.body(ids) == {"prompt_ids": [1, 2], "max_new_tokens": 3}
    assert lab.body(text) == {"prompt": "a", "max_new_tokens": 3}
    completions = OpenAITarget("127.0.0.1:8001/v1", "m", extra={"seed": 1})
    assert completions.path == "/v1/completions"
    assert completions.body(ids) == {
        "model": "m",
        "prompt": [1, 2],
        "max_tokens": 3,
        "temperature": 0,
        "stream": True,
        "stream_options": {
            "include_usage": True,
            "continuous_usage_stats": True,
        },
        "seed": 1,
    }
    chat = OpenAITarget("http://h/x/", "m", chat=True, key="k")
    assert chat.path == "/x/v1/chat/completions"
    assert chat.headers == {"Authorization": "Bearer k"}
    assert chat.body(text)["messages"] == [{"role": "user", "content": "a"}]
    with pytest.raises(LabError, match="takes text"):
        chat.body(ids)


@pytest.mark.parametrize(
    "url", ["", "ftp://h", "http://", "http://h:port", "http://[::1", "//h"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(LabError, match="address of a server"):
        Address.of(url)


def test_a_request_is_one_head_and_its_body() -> None:
    address = Address.of("http://[::1]:81/p")
    assert post(address, "/p/stream", {"A": "b"}, b"{}") == (
        b"POST /p/stream HTTP/1.1\r\nHost: [::1]:81\r\nContent-Length: 2\r\n"
        b"A: b\r\n\r\n{}"
    )
    with pytest.raises(LabError, match="printable"):
        post(address, "/", {"A": "b\r\nC: d"}, b"")


def test_ids_and_text_exclude_each_other() -> None:
    for both in ({}, {"prompt_ids": (1,), "text": "a"}):
        with pytest.raises(LabError, match="either"):
            Request("m", 1, **both)  # type: ignore[arg-type]  # the point


def ask(target: Target, timeouts: Timeouts = PATIENT) -> Record:
    with Client(target, timeouts) as client:
        return client.send(ASK)


@pytest.fixture
def raw_server() -> Iterator[Callable[..., str]]:
    """Answers every connection with the same bytes, and closes.

    With `drip` it goes on with that, until the client is gone.
    """
    stopped = threading.Event()
    threads: list[threading.Thread] = []

    def answer(connected: socket.socket, data: bytes, drip: bytes) -> None:
        with connected:
            while not connected.recv(65536).endswith(b"}"):
                pass
            connected.sendall(data)
            while drip and not stopped.wait(0.02):
                try:
                    connected.sendall(drip)
                except OSError:
                    return
            # What is unread when it closes would turn the end into a reset.
            connected.shutdown(socket.SHUT_WR)

    def serve(listener: socket.socket, data: bytes, drip: bytes) -> None:
        with listener:
            while not stopped.is_set():
                try:
                    connected, _ = listener.accept()
                except TimeoutError:
                    continue
                connected.settimeout(10)
                try:
                    answer(connected, data, drip)
                except OSError:
                    continue

    def start(data: bytes, drip: bytes = b"") -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(0.05)
        threads.append(
            threading.Thread(target=serve, args=(listener, data, drip))
        )
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    stopped.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("name", ["EMFILE", "ENOBUFS", "EADDRNOTAVAIL"])
def test_limits_of_this_machine_are_no_failure_of_the_server(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(getattr(errno, name), "full")

    monkeypatch.setattr(socket, "socket", full)
    with pytest.raises(LabError, match="opens no more connections"):
        ask(LabTarget("http://127.0.0.1:9"))


BAD_EVENTS: list[list[tuple[str, dict[str, Any]]]] = [
    [("token", {"id": 9})],
    [("token", {"id": 2**63})],
    [("start", {"queued_ns": 5, "start_ns": 4})],
    [("start", {"queued_ns": 2**63, "start_ns": 2**63})],
    [("token", {"id": 1, "time_ns": 5}), ("token", {"id": 1, "time_ns": 4})],
    [("token", {"id": 1, "time_ns": 2**64})],
    [("done", {"new_tokens": 10**30})],
]


@pytest.mark.parametrize("events", BAD_EVENTS)
def test_what_a_server_may_not_say_is_malformed(
    events: list[tuple[str, dict[str, Any]]],
) -> None:
    reading = LabTarget("http://127.0.0.1:9", vocabulary=9).reading()
    *good, (name, bad) = events
    for each, fields in good:
        reading.feed(each, json.dumps(fields), 1)
    with pytest.raises(Fault) as raised:
        reading.feed(name, json.dumps(bad), 1)
    assert raised.value.code == "malformed"


@pytest.mark.parametrize("bad", [-1, 9, 2**63])
def test_ids_of_openai_are_judged_as_well(bad: int) -> None:
    target = OpenAITarget("http://127.0.0.1:9", "m", vocabulary=9)
    document = {"choices": [{"text": "", "token_ids": [bad]}]}
    with pytest.raises(Fault):
        target.reading().feed("", json.dumps(document), 1)
