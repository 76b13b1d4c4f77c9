"""Closed and open loops, failures, interruptions."""

from __future__ import annotations

import _thread
import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.loadtest import evidence, loops, recorder, runner, verify
from labkit.loadtest.records import Record, Request


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    found = (folder / name).read_bytes().splitlines()
    return [json.loads(line) for line in found]


def begin(folder: Path, tools: Any, **plan: Any) -> Path:
    evidence.create(folder, tools.plan(**plan), tools.about)
    return folder


def test_each_request_is_sent_once_in_its_order(
    tmp_path: Path, tools: Any
) -> None:
    folder = begin(tmp_path / "run", tools, requests=20)
    client = tools.Client(pause_s=0.0005)
    assert tools.measure(folder, client)
    assert Counter(client.sent) == dict.fromkeys(client.sent, 1)
    assert len(client.sent) == 42
    assert client.sent[0] == "w000"
    assert set(client.sent[1:21]) == {f"m{n:03}" for n in range(20)}
    assert client.sent[21:] == ["w001", *(f"m{n:03}" for n in range(20, 40))]


def test_two_clients_are_two_in_flight(tmp_path: Path, tools: Any) -> None:
    client = tools.Client(pause_s=0.001)
    tools.measure(begin(tmp_path / "run", tools, requests=8), client)
    assert client.most == 2
    found = evidence.load(tmp_path / "run")
    (both,) = found.segments("two clients")
    assert [record.startup for record in both] == [True, True] + [False] * 6
    (alone,) = found.segments("one client")
    assert not any(record.startup for record in alone)


def test_more_clients_than_requests(tmp_path: Path, tools: Any) -> None:
    """None waits for a burst that never comes."""
    client = tools.Client()
    tools.measure(begin(tmp_path / "run", tools, requests=1), client)
    assert len(client.sent) == 4


def test_a_failure_is_recorded_and_the_run_goes_on(
    tmp_path: Path, tools: Any
) -> None:
    tools.run(tmp_path / "run", failing=("m001", "m004"))
    found = evidence.load(tmp_path / "run")
    assert found.complete
    failed = [run.record for run in found.runs if not run.record.ok]
    assert {record.request for record in failed} == {"m001", "m004"}
    assert {record.failure for record in failed} == {"error_event"}


def test_an_open_loop_keeps_its_schedule(tmp_path: Path, tools: Any) -> None:
    """Every due moment is as far from the first as was planned, however
    late the requests were sent."""
    made = tools.plan(requests=10, open_loop=True)
    folder = tmp_path / "run"
    tools.run(folder, made, pause_s=0.002)
    (records,) = evidence.load(folder).segments("open")
    due = [record.due_ns or 0 for record in records]
    assert [each - due[0] for each in due] == [
        2_000_000 * n for n in range(10)
    ]
    assert all(record.sent_ns >= (record.due_ns or 0) for record in records)


def test_an_open_loop_sends_no_more_than_it_may(
    tmp_path: Path, tools: Any
) -> None:
    made = tools.plan(requests=10, open_loop=True)
    planned = made.of("open", "measured")
    client = tools.Client(pause_s=0.004)
    with evidence_of(tmp_path, tools) as writing:
        load = loops.Load(writing, tools.quiet(0, ""), threading.Event())
        load.open(client, planned, most_in_flight=2)
    assert client.most == 2
    assert client.sent == [each.request for each in planned]


def evidence_of(tmp_path: Path, tools: Any) -> recorder.Recorder:
    folder = begin(tmp_path / "run", tools, requests=10, open_loop=True)
    return recorder.Recorder(folder, 1)


class Interrupting:
    """Presses Ctrl-C while a request is in flight."""

    def __init__(self, client: Any, at: str) -> None:
        self.client = client
        self.at = at

    def send(self, request: Request, **hooks: Any) -> Record:
        if request.name == self.at:
            self.at = ""
            _thread.interrupt_main()
        record: Record = self.client.send(request, **hooks)
        return record


@pytest.mark.parametrize("open_loop", [False, True])
@pytest.mark.parametrize("at", ["w000", "m001", "m007", "m008"])
def test_ctrl_c_ends_the_run_in_order(
    tmp_path: Path, tools: Any, at: str, open_loop: bool
) -> None:
    """What is in flight ends well; what is missing is measured later."""
    folder = begin(tmp_path / "run", tools, requests=6, open_loop=open_loop)
    client = tools.Client(pause_s=0.003)
    assert not tools.measure(folder, Interrupting(client, at))
    status, sentences = verify.examine(folder)
    assert status == verify.PARTIAL, sentences
    first = evidence.load(folder)
    assert first.ends == ("interrupted",)
    assert set(client.sent) == first.finished
    before = [run.record for run in first.runs]

    assert tools.measure(folder, tools.Client())
    assert verify.examine(folder)[0] == verify.COMPLETE
    second = evidence.load(folder)
    assert second.ends == ("interrupted", "complete")
    assert [run.record for run in second.runs][: len(before)] == before
    names = Counter(
        run.record.request
        for run in second.runs
        if run.record.request[0] == "m"
    )
    assert names == dict.fromkeys((f"m{n:03}" for n in range(12)), 1)


def test_what_fails_after_a_stop_is_given_up(
    tmp_path: Path, tools: Any
) -> None:
    """Ctrl-C reaches a server in the same terminal; that is no finding."""
    stop = threading.Event()
    client = tools.Client(failing=("m000", "m001"))

    class Stopping:
        def send(self, request: Request, **hooks: Any) -> Record:
            if request.name == "m001":
                stop.set()
            record: Record = client.send(request, **hooks)
            return record

    folder = begin(tmp_path / "run", tools)
    planned = tools.plan().of("two clients", "measured")
    with recorder.Recorder(folder, 1) as writing:
        writing.start(0)
        load = loops.Load(writing, tools.quiet(0, ""), stop)
        load.closed(Stopping(), planned, clients=1)
        writing.end(10**18, "interrupted")
    assert client.sent == ["m000", "m001"]
    assert evidence.load(folder).finished == {"m000"}


class Stubborn(Interrupting):
    """Never ends, so that a second Ctrl-C is needed."""

    def __init__(self, client: Any, at: str) -> None:
        super().__init__(client, at)
        self.over = threading.Event()

    def send(self, request: Request, **hooks: Any) -> Record:
        if request.name == self.at:
            hooks["on_sent"](request.name, 10**18)
            for _ in range(2):
                threading.Timer(0.05, _thread.interrupt_main).start()
                self.over.wait(0.3)
            self.over.wait(10)
        record: Record = self.client.send(request, **hooks)
        return record


def test_a_second_ctrl_c_gives_up_what_is_in_flight(
    tmp_path: Path, tools: Any
) -> None:
    folder = begin(tmp_path / "run", tools)
    client = Stubborn(tools.Client(), "m004")
    assert not tools.measure(folder, client)
    client.over.set()
    assert verify.examine(folder)[0] == verify.PARTIAL
    assert "m004" not in evidence.load(folder).finished
    assert tools.measure(folder, tools.Client())
    assert verify.examine(folder)[0] == verify.COMPLETE


def test_a_fault_of_the_client_ends_the_run(
    tmp_path: Path, tools: Any
) -> None:
    class Broken:
        def send(self, request: Request, **hooks: Any) -> Record:
            raise LabError("This client is broken.")

    folder = begin(tmp_path / "run", tools)
    with pytest.raises(LabError, match="is broken"):
        tools.measure(folder, Broken())
    assert verify.examine(folder)[0] == verify.PARTIAL
    assert tools.measure(folder, tools.Client())


@pytest.mark.parametrize("open_loop", [False, True])
def test_no_more_threads_is_one_sentence(
    tmp_path: Path,
    tools: Any,
    monkeypatch: pytest.MonkeyPatch,
    open_loop: bool,
) -> None:
    """And no thread is left behind, waiting for one that never comes."""
    made = tools.plan(requests=4, open_loop=open_loop)
    planned = made.of(made.configurations[open_loop].name, "measured")
    folder = tmp_path / "run"
    evidence.create(folder, made, tools.about)
    start = loops._start
    started: list[threading.Thread] = []

    def limited(*words: Any) -> threading.Thread:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(start(*words))
        return started[-1]

    monkeypatch.setattr(loops, "_start", limited)
    client = tools.Client(pause_s=0.01)
    with recorder.Recorder(folder, 1) as writing:
        writing.start(0)
        load = loops.Load(writing, tools.quiet(0, ""), threading.Event())
        with pytest.raises(LabError, match="starts no thread beside"):
            if open_loop:
                load.open(client, planned, None)
            else:
                load.closed(client, planned, clients=4)
    assert not any(thread.is_alive() for thread in started)


def test_a_full_disk_is_one_sentence(
    tmp_path: Path, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin(tmp_path / "run", tools, requests=30)
    append = recorder._Chained.append

    def full(self: Any, fields: Any) -> None:
        if self.lines == 20:
            raise OSError(28, "No space left on device")
        append(self, fields)

    monkeypatch.setattr(recorder._Chained, "append", full)
    client = tools.Client(pause_s=0.005)
    with pytest.raises(LabError, match="No space left"):
        tools.measure(folder, client)
    sent = len(client.sent)
    time.sleep(0.1)
    assert len(client.sent) <= sent + 2
    monkeypatch.undo()
    assert verify.examine(folder)[0] == verify.PARTIAL
    assert tools.measure(folder, tools.Client())


def test_a_finished_run_is_not_measured_again(
    folder: Path, tools: Any
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    client = tools.Client()
    assert tools.measure(folder, client)
    assert not client.sent
    assert {
        path.name: path.read_bytes() for path in folder.iterdir()
    } == before


def test_the_sampler_watches_memory_and_the_client(
    tmp_path: Path, tools: Any
) -> None:
    import os
    from contextlib import nullcontext

    folder = begin(tmp_path / "run", tools)
    serving = loops.Serving(tools.Client(0.001), os.getpid(), 2)
    runner.run(folder, lambda _: nullcontext(serving), make_bar=tools.quiet)
    samples = lines(folder, evidence.RSS)
    assert {each["configuration"] for each in samples} == {
        "two clients",
        "one client",
    }
    assert all(each["rss_bytes"] > 2**20 for each in samples)
    assert all(each["lag_ns"] >= 0 for each in samples)
    starts = [
        event["threads"]
        for event in lines(folder, evidence.EVENTS)
        if event["kind"] == "configuration_start"
    ]
    assert starts == [2, 2]
