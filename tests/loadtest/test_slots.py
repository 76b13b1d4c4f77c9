"""First come, first served: the rule, and the scripted server that has it."""

from __future__ import annotations

import heapq
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.loadtest import metrics, scripted
from labkit.loadtest.client import Client
from labkit.loadtest.drive import open_loop
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Record, Request
from labkit.loadtest.scripted import Player, ScriptedServer
from labkit.loadtest.slots import Slots
from labkit.loadtest.timelines import Step, TimeLine, one_by_one

MS = 1_000_000
PATIENCE_S = 30
Serve = Callable[..., Player]


@given(
    st.lists(st.booleans(), max_size=60),
    st.integers(1, 4),
    st.none() | st.integers(0, 4),
)
def test_who_comes_first_begins_first(
    comes: Sequence[bool], count: int, max_waiting: int | None
) -> None:
    slots: Slots[int] = Slots(count, max_waiting)
    begun: list[int] = []
    waiting: list[int] = []
    busy = 0
    for name, come in enumerate(comes):
        if come:
            verdict = slots.come(name)
            assert (verdict == "begins") == (busy < count)
            full = len(waiting) == max_waiting
            assert (verdict == "refused") == (busy == count and full)
            if verdict == "begins":
                busy += 1
                begun.append(name)
            elif verdict == "waits":
                waiting.append(name)
        elif busy:
            following = slots.leave()
            assert following == (waiting.pop(0) if waiting else None)
            if following is None:
                busy -= 1
            else:
                begun.append(following)
    assert begun == sorted(begun)


def test_without_slots_all_begin() -> None:
    slots: Slots[int] = Slots()
    assert {slots.come(name) for name in range(99)} == {"begins"}
    assert slots.leave() is None


@pytest.mark.parametrize(
    ("slots", "max_waiting", "sentence"),
    [
        (0, None, "no 0 slots"),
        (-1, 2, "no -1 slots"),
        (1, -1, "line of -1"),
        (None, 3, "give slots as well"),
    ],
)
def test_sizes_that_are_none_are_said(
    slots: int | None, max_waiting: int | None, sentence: str
) -> None:
    with pytest.raises(LabError, match=sentence):
        ScriptedServer([one_by_one([1])], slots, max_waiting)


def ideal(played: Sequence[Played], services_ms: Any, slots: int) -> Any:
    """Start and end of each, if the server were never late."""
    free = [0] * slots
    for each in played:
        start = max(each.read_ns, heapq.heappop(free))
        end = start + round(services_ms[each.line] * MS)
        heapq.heappush(free, end)
        yield start, end


def check_order(
    played: Sequence[Played], services_ms: Sequence[float], slots: int
) -> None:
    """They were served as they came, in slots that were never late."""
    read = [each.read_ns for each in played]
    assert read == sorted(read)
    found = [(each.start_ns, each.end_ns) for each in played]
    assert found == list(ideal(played, services_ms, slots))
    for each in played:
        assert each.start_ns is not None
        for write in each.writes:
            assert write.write_ns >= write.due_ns >= each.start_ns


def requests(count: int) -> list[Request]:
    return [Request(f"m{n:03}", 1, prompt_ids=(1,)) for n in range(count)]


def over(player: Player, count: int) -> list[Played]:
    """What was played, once so many requests are over."""
    wait_until(lambda: sum(p.end_ns is not None for p in player.played), count)
    return player.played


def wait_until(count: Callable[[], int], wanted: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while count() < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_each_begins_when_a_slot_is_free(serve: Serve, slots: int) -> None:
    one_slot_ms = [12, 1, 0, 7.5, 3, 1, 0.25, 9]
    services_ms = [slots * each for each in one_slot_ms]
    script = [one_by_one([each]) for each in services_ms]
    player = serve(script, slots=slots)
    with Client(LabTarget(player.url)) as client:
        records = open_loop(
            client, requests(40), [n * MS // 2 for n in range(40)]
        )
    assert all(record.ok for record in records)
    played = over(player, 40)
    check_order(played, services_ms, slots)
    # 40 come in 20 ms, and there is work for 170.
    assert any(each.start_ns != each.read_ns for each in played)
    by_name = {each.request: each for each in played}
    for record in records:
        told = by_name[record.request]
        assert (record.queued_ns, record.start_ns) == (
            told.read_ns,
            told.start_ns,
        )
        waited_ns = (told.start_ns or 0) - told.read_ns
        assert metrics.queue_ms(record) == waited_ns / MS


def test_without_slots_nobody_waits(serve: Serve) -> None:
    player = serve([one_by_one([20])])
    with Client(LabTarget(player.url)) as client:
        records = open_loop(client, requests(9), [0] * 9)
    assert {metrics.queue_ms(record) for record in records} == {0.0}
    for each in over(player, 9):
        assert each.start_ns == each.read_ns
        assert each.end_ns == each.read_ns + 20 * MS


def ask(player: Player, name: str) -> socket.socket:
    """Send a request and wait until it was read, not for its answer."""
    host, _, port = player.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), PATIENCE_S)
    before = len(player.played)
    head = f"POST /stream HTTP/1.1\r\nX-Request-Id: {name}\r\n\r\n"
    connection.sendall(head.encode())
    wait_until(lambda: len(player.played), before + 1)
    return connection


@pytest.mark.parametrize("how", ["cut", "reset", "refusal", "hang"])
def test_every_end_frees_the_slot(serve: Serve, how: Any) -> None:
    line = (
        TimeLine(status=500, head_ms=4)
        if how == "refusal"
        else TimeLine((Step(1, "start"), Step(4, how)))
    )
    player = serve([line], slots=1)
    held = [ask(player, f"m{n}") for n in range(5)]
    check_order(over(player, 5), [4], slots=1)
    for connection in held:
        connection.close()


def test_a_client_that_leaves_frees_nothing(serve: Serve) -> None:
    """Neither before its turn nor after: this server does not look."""
    player = serve([one_by_one([100, 200]), one_by_one([50])], slots=1)
    for name in ("begun", "waiting", "begun later"):
        ask(player, name).close()
    with Client(LabTarget(player.url)) as client:
        assert client.send(Request("stays", 1, text="a")).ok
    played = over(player, 4)
    check_order(played, [200, 50], slots=1)
    # What comes after a client has left is not written.
    assert [len(each.writes) for each in played[1:3]] == [0, 0]
    assert len(played[3].writes) == 3


def test_who_finds_the_line_full_is_refused(serve: Serve) -> None:
    player = serve([one_by_one([60_000])], slots=1, max_waiting=2)
    held = [ask(player, f"m{n}") for n in range(3)]
    with Client(LabTarget(player.url)) as client:
        record = client.send(Request("late", 1, text="a"))
        assert client.send(Request("later", 1, text="a")).status == 429
    assert (record.status, record.failure) == (429, "http_429")
    assert record.message == "The line is full."
    states = [(p.request, p.start_ns is None) for p in player.played]
    assert states == [
        ("m0", False),
        ("m1", True),
        ("m2", True),
        ("late", True),
        ("later", True),
    ]
    for connection in held:
        connection.close()


def test_nobody_may_wait(serve: Serve) -> None:
    """A refused request takes no slot, and the n-th has the n-th line."""
    script = [one_by_one([40]), one_by_one([1]), one_by_one([1, 2])]
    player = serve(script, slots=1, max_waiting=0)
    held = ask(player, "m0")
    with Client(LabTarget(player.url)) as client:
        assert client.send(Request("m1", 1, text="a")).status == 429
        over(player, 1)
        assert client.send(Request("m2", 2, text="a")).new_tokens == 2
    held.close()
    assert [each.line for each in player.played] == [0, 1, 2]


def test_a_slot_that_was_due_to_be_free_is() -> None:
    """A server that is late refuses nobody for it.

    It is played by hand: between the end of the first request and the second
    it has no turn.
    """
    player = Player([one_by_one([5])], slots=1, max_waiting=0)
    host, _, port = player.url.removeprefix("http://").partition(":")
    held = []
    for count in (1, 2):
        held.append(socket.create_connection((host, int(port)), PATIENCE_S))
        held[-1].sendall(b"POST /stream HTTP/1.1\r\n\r\n")
        while len(player.played) < count:
            player._wait()
        time.sleep(0.02)
    assert [each.start_ns for each in player.played] == [
        each.read_ns for each in player.played
    ]
    stopped = threading.Event()
    stopped.set()
    player.run(stopped)
    for connection in held:
        connection.close()


def test_one_connection_too_many_is_said(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "MOST_OPEN", 2)
    monkeypatch.setattr(scripted, "WATCHED", 3)
    player = serve([one_by_one([60_000])], slots=1)
    held = [ask(player, "m0"), ask(player, "m1")]
    # It is closed at once, whoever would use it again.
    with Client(LabTarget(player.url), keep_alive=True) as client:
        record = client.send(Request("m2", 1, text="a"))
        assert record.failure == "http_503"
        assert record.message == "2 connections are open, the most."
        host, _, port = player.url.removeprefix("http://").partition(":")
        # The refused one is gone; this one says nothing, and stays.
        held.append(socket.create_connection((host, int(port)), PATIENCE_S))
        record = client.send(Request("m3", 1, text="a"))
        assert record.failure == "connection"
    assert [p.request for p in player.played] == ["m0", "m1", "m2"]
    assert [p.start_ns is None for p in player.played] == [False, True, True]
    for connection in held:
        connection.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    """A terminal of macOS allows 256; the server inherits the limit."""
    if os.name == "nt":
        yield
        return
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = max(limits[0], min(2048, limits[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (more, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_five_hundred_wait_in_a_process(many_files: None) -> None:
    """All are answered, in order."""
    first_ms, count = 2_500, 501
    services_ms = [float(first_ms), *[1.0] * (count - 1)]
    script = [one_by_one([each]) for each in services_ms]
    with ScriptedServer(script, slots=1) as server:
        with Client(LabTarget(server.url)) as client:
            records = open_loop(client, requests(count), [0] * count)
        played = server.truth()
    assert [r.message for r in records if not r.ok] == []
    assert len(played) == count
    check_order(played, services_ms, slots=1)
    first_end = played[0].end_ns
    assert first_end is not None
    assert sum(p.read_ns < first_end for p in played) == count
    check_records(records, played)


def check_records(records: Sequence[Record], played: Sequence[Played]) -> None:
    """Every client was told its own story."""
    by_name = {each.request: each for each in played}
    for record in records:
        told = by_name[record.request]
        assert record.queued_ns == told.read_ns
        assert record.start_ns == told.start_ns
        assert record.end_ns >= (told.end_ns or 0)
