"""The scripted server: what it plays is what the script says."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.loadtest import scripted, timelines
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.records import Request
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.timelines import Step, TimeLine, one_by_one

MS = 1_000_000


def test_a_script_survives_its_file() -> None:
    script = [
        one_by_one([1, 2.5]),
        TimeLine((Step(0, "raw", text="\xff\n"),), head_ms=0),
        TimeLine((), 429),
        TimeLine((Step(1, "tokens", 3), Step(2, "reset")), content_type="x/y"),
    ]
    assert timelines.from_json(timelines.to_json(script)) == script


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "no script"),
        ("[]", "at least one"),
        ("[{}]", "no script"),
        ("[5]", "no script"),
        ('[{"steps": [{"at_ms": 1, "do": "dance"}]}]', "cannot do dance"),
        ('[{"steps": [{"do": "done"}]}]', "no script"),
        ('[{"steps": [], "head_ms": -1}]', "in order of time"),
        (
            '[{"steps": [{"at_ms": 2, "do": "start"},'
            ' {"at_ms": 1, "do": "done"}]}]',
            "in order of time",
        ),
    ],
)
def test_what_is_no_script_is_said(text: str, sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        timelines.from_json(text)


def test_the_schedule_is_absolute(serve: Callable[..., Any]) -> None:
    times_ms = [5, 10, 12.5, 30]
    player = serve([one_by_one(times_ms, 2)])
    with Client(LabTarget(player.url)) as client:
        assert client.send(Request("m0", 4, text="a")).ok
    (played,) = player.played
    after_ms = [(w.due_ns - played.read_ns) / MS for w in played.writes]
    assert after_ms == [2, *times_ms, 30]
    assert [w.do for w in played.writes] == ["start", *["tokens"] * 4, "done"]
    assert [w.tokens for w in played.writes] == [0, 1, 1, 1, 1, 0]
    assert played.accepted_ns <= played.read_ns
    for write in played.writes:
        assert write.write_ns >= write.due_ns
    for before, after in pairwise(played.writes):
        assert before.write_ns <= after.write_ns


def test_requests_get_the_time_lines_in_turn(
    serve: Callable[..., Any],
) -> None:
    player = serve([one_by_one([1]), one_by_one([1, 2])])
    with Client(LabTarget(player.url)) as client:
        counts = [
            client.send(Request(f"m{k}", 1, text="a")).new_tokens
            for k in range(4)
        ]
    assert counts == [1, 2, 1, 2]
    assert [p.line for p in player.played] == [0, 1, 0, 1]
    assert [p.request for p in player.played] == ["m0", "m1", "m2", "m3"]


def test_what_the_socket_does_not_take_is_sent_later(
    serve: Callable[..., Any],
) -> None:
    size = 8_000_000
    player = serve([TimeLine((Step(1, "raw", text="x" * size),))])
    host, _, port = player.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(b"POST /stream HTTP/1.1\r\n\r\n")
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            data = connection.recv(1 << 20)
            assert data
            received += data
    assert received.count(b"x") >= size


def test_half_a_request_is_waited_for() -> None:
    whole = (
        b"POST /stream HTTP/1.1\r\nContent-Length: 7\r\nx-REQUEST-id: q\r\n"
        b'\r\n{"a":1}GET /truth HTTP/1.1\r\n\r\n'
    )
    first = whole.index(b"GET")
    for end in range(first):
        assert scripted.parse(whole[:end]) is None
    path, name, body, rest = scripted.parse(whole) or ("", "", {}, b"")
    assert (path, name, body) == ("/stream", "q", {"a": 1})
    assert (scripted.parse(rest) or "")[0] == "/truth"


def test_a_process_plays_and_tells(
    assert_true_to: Callable[..., None],
) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with ScriptedServer([one_by_one([5, 10, 15], 1)]) as server:
        with opener.open(f"{server.url}/v1/models", timeout=10) as reply:
            assert json.load(reply)["data"][0]["id"] == "scripted"
        with Client(LabTarget(server.url)) as client:
            record = client.send(Request("m0", 3, text="a"))
        (played,) = server.truth()
    assert record.ok, record.message
    assert_true_to(record, played)
    # The two processes have one clock.
    assert record.arrivals[0].server_ns is not None
    assert record.sent_ns < record.arrivals[0].server_ns < record.end_ns


@pytest.mark.parametrize(
    ("length", "body"),
    [("abc", "{}"), ("-1", "{}"), ("200000", "[" * 200_000), ("9", "{" * 9)],
)
def test_whatever_is_asked_is_played(length: str, body: str) -> None:
    asked = f"POST /stream HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"
    found = scripted.parse(asked.encode())
    assert found is not None
    assert found[:3] == ("/stream", "", {})


@pytest.mark.parametrize("ids", [5, "abc", None, {"a": 1}, []])
def test_prompt_ids_that_are_none_are_one_token(ids: object) -> None:
    dialect = timelines.Dialect("/stream", {"prompt_ids": ids})
    assert b'"prompt_tokens": 1' in dialect.event(Step(0, "start"), 0)
