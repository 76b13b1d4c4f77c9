"""Loops whose records stay in memory."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.loadtest import laws, loops
from labkit.loadtest.client import Client
from labkit.loadtest.drive import closed_loop, open_loop
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.records import Record, Request
from labkit.loadtest.timelines import one_by_one
from labkit.loadtest.wire import now_ns

MS = 1_000_000
PATIENCE_S = 30


def requests(count: int) -> list[Request]:
    """By id and by text, in turn."""
    return [
        Request(f"m{n:03}", 1, text="a")
        if n % 2
        else Request(f"m{n:03}", 1, prompt_ids=(n,))
        for n in range(count)
    ]


class Stub:
    """Answers when `answer` returns; counts how many it has in flight."""

    def __init__(self, answer: Callable[[Request], object]) -> None:
        self.answer = answer
        self.sent: list[Request] = []
        self.in_flight = self.most = 0
        self._lock = threading.Lock()

    def send(
        self, request: Request, *, due_ns: int | None = None, **hooks: Any
    ) -> Record:
        sent_ns = now_ns()
        with self._lock:
            self.sent.append(request)
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        self.answer(request)
        with self._lock:
            self.in_flight -= 1
        failure = "timeout" if request.name == "m001" else None
        return Record(
            request.name, sent_ns, now_ns(), due_ns=due_ns, failure=failure
        )


def short(_: Request) -> None:
    threading.Event().wait(0.002)


def names(records: list[Record]) -> list[str]:
    return [record.request for record in records]


def test_an_open_loop_of_a_real_server(serve: Callable[..., Any]) -> None:
    """In order of the requests, though they ended in another."""
    player = serve([one_by_one([40]), one_by_one([1])])
    offsets_ns = [5 * MS, 0, 10 * MS, 2 * MS]
    with Client(LabTarget(player.url)) as client:
        records = open_loop(client, requests(4), offsets_ns)
    assert names(records) == ["m000", "m001", "m002", "m003"]
    assert all(record.ok for record in records)
    assert not laws.violations(records)
    due = [record.due_ns or 0 for record in records]
    assert [each - due[1] for each in due] == offsets_ns
    assert all(record.sent_ns >= (record.due_ns or 0) for record in records)
    assert not any(record.startup for record in records)


def test_a_closed_loop_of_a_real_server(serve: Callable[..., Any]) -> None:
    player = serve([one_by_one([3]), one_by_one([1])])
    with Client(LabTarget(player.url)) as client:
        records = closed_loop(client, requests(9), clients=2)
    assert names(records) == [each.name for each in requests(9)]
    assert all(record.ok for record in records)
    assert not laws.violations(records)
    assert {record.due_ns for record in records} == {None}
    assert [record.startup for record in records] == [True] * 2 + [False] * 7


def test_what_failed_is_kept_in_its_place() -> None:
    stub = Stub(short)
    for records in (
        open_loop(stub, requests(3), [0, 0, 0]),
        closed_loop(stub, requests(3), clients=1),
    ):
        assert [record.failure for record in records] == [
            None,
            "timeout",
            None,
        ]


def test_no_more_clients_than_asked_for() -> None:
    stub = Stub(short)
    closed_loop(stub, requests(12), clients=3)
    assert stub.most == 3
    assert sorted(each.name for each in stub.sent) == [
        each.name for each in requests(12)
    ]


def test_one_client_has_no_start_up() -> None:
    stub = Stub(short)
    records = closed_loop(stub, requests(4), clients=1)
    assert stub.sent == requests(4)
    assert not any(record.startup for record in records)


def test_more_clients_than_requests() -> None:
    records = closed_loop(Stub(short), requests(2), clients=5)
    assert [record.startup for record in records] == [True, True]


def test_an_open_loop_holds_back_what_it_may_not_send() -> None:
    stub = Stub(short)
    records = open_loop(stub, requests(9), [0] * 9, most_in_flight=2)
    assert stub.most == 2
    assert len({record.due_ns for record in records}) == 1


def test_nothing_is_asked_and_nothing_is_sent() -> None:
    assert open_loop(Stub(short), [], []) == []
    assert closed_loop(Stub(short), [], clients=2) == []


@pytest.mark.parametrize(
    ("loop", "sentence"),
    [
        (lambda s: open_loop(s, requests(2), [0]), "2 requests and 1 offsets"),
        (
            lambda s: open_loop(s, requests(1), [0], most_in_flight=0),
            "most_in_flight is 0",
        ),
        (lambda s: closed_loop(s, requests(2), 0), "clients is 0"),
        (lambda s: closed_loop(s, requests(2), 1, think_s=-1), "thinks for"),
        (
            lambda s: closed_loop(s, requests(2), 1, think_s=float("nan")),
            "thinks for",
        ),
        (lambda s: closed_loop(s, requests(1) * 2, 1), "'m000' is planned"),
        (
            lambda s: open_loop(s, requests(1) * 2, [0, 1]),
            "'m000' is planned",
        ),
    ],
)
def test_what_cannot_be_driven_is_said(
    loop: Callable[[Stub], object], sentence: str
) -> None:
    stub = Stub(short)
    with pytest.raises(LabError, match=sentence):
        loop(stub)
    assert not stub.sent


class Pauses(threading.Event):
    """Notes how long it was waited for, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return self.is_set()


class Nothing:
    """Takes no notes."""

    def sent(self, *_: object) -> None: ...
    def arrived(self, *_: object) -> None: ...
    def finished(self, *_: object) -> None: ...
    def check(self) -> None: ...
    def advance(self, label: str) -> None: ...
    def close(self, summary: str) -> None: ...


class Planned:
    phase: Any = "measured"
    offset_ns = None

    def to_send(self) -> Request:
        return Request("m000", 1, text="a")


def test_a_client_thinks_between_two_requests() -> None:
    """Not before its first one and not after its last."""
    stop, stub = Pauses(), Stub(lambda _: None)
    load: loops.Load[Planned] = loops.Load(Nothing(), Nothing(), stop)
    load.closed(stub, [Planned()] * 4, clients=1, think_s=7.5)
    assert stop.pauses == [0.0, 7.5, 7.5, 7.5]
    assert len(stub.sent) == 4


def test_a_closed_loop_thinks() -> None:
    """No sleep is much shorter than it was asked to be."""
    first, second = closed_loop(Stub(short), requests(2), 1, think_s=0.06)
    assert second.sent_ns - first.end_ns > 30 * MS


@pytest.mark.parametrize("is_open", [False, True])
def test_ctrl_c_sends_no_more(is_open: bool) -> None:
    release = threading.Event()

    def answer(request: Request) -> None:
        if request.name == "m002":
            _thread.interrupt_main()
            release.wait(PATIENCE_S)

    stub = Stub(answer)
    with pytest.raises(KeyboardInterrupt):
        if is_open:
            offsets_ns = [n * 20 * MS for n in range(50)]
            open_loop(stub, requests(50), offsets_ns)
        else:
            closed_loop(stub, requests(50), clients=1)
    release.set()
    for thread in threading.enumerate():
        if thread.name.endswith("(client)"):
            thread.join(PATIENCE_S)
    assert len(stub.sent) < 50


@pytest.mark.parametrize("is_open", [False, True])
def test_a_fault_of_the_client_is_raised(is_open: bool) -> None:
    def answer(request: Request) -> None:
        if request.name == "m001":
            raise LabError("This client is broken.")

    stub = Stub(answer)
    with pytest.raises(LabError, match="is broken"):
        if is_open:
            open_loop(stub, requests(9), [n * 5 * MS for n in range(9)])
        else:
            closed_loop(stub, requests(9), clients=1)
    assert len(stub.sent) < 9


def test_an_open_loop_sends_in_the_order_of_the_moments() -> None:
    stub = Stub(short)
    open_loop(stub, requests(2), [300 * MS, 0])
    assert [each.name for each in stub.sent] == ["m001", "m000"]
