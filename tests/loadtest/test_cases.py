"""The measurement cases, by their numbers, and others of their kinds.

Values are exact: they come from time lines whose stamps are exact, through
the writer and the reader of each protocol, or from records made by hand.
That the wire changes nothing but the stamps is shown in test_client.py;
18, 21 and 22, which are of runs, are in evidence/.
"""

from __future__ import annotations

import dataclasses
import inspect
import socket
import statistics
import threading
from collections.abc import Callable
from typing import Any

import pytest

from labkit.loadtest import laws, metrics, rates, schedule, workload
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.openai_target import OpenAITarget
from labkit.loadtest.records import Arrival, Record, Request
from labkit.loadtest.targets import Target
from labkit.loadtest.timelines import Step, TimeLine, one_by_one

MS = 1_000_000
Replay = Callable[[TimeLine, Target], Record]


def line(*steps: tuple[Any, ...]) -> TimeLine:
    return TimeLine(tuple(Step(*step) for step in steps))


def made(
    name: str,
    times_ms: list[float],
    sent_ms: float = 0.0,
    due_ms: float | None = None,
    failure: str | None = None,
) -> Record:
    """A record with single tokens at these times."""
    arrivals = tuple(
        Arrival(round(t * MS), "token", (k,), 1)
        for k, t in enumerate(times_ms)
    )
    return Record(
        name,
        sent_ns=round(sent_ms * MS),
        end_ns=round(max([sent_ms, *times_ms]) * MS),
        due_ns=None if due_ms is None else round(due_ms * MS),
        arrivals=arrivals,
        failure=failure,
        new_tokens=len(arrivals) if failure is None else None,
        counted="ids",
    )


@pytest.mark.parametrize("start_ms", [5, 0, 204])
def test_01_a_role_is_no_token(
    replay: Replay, target: Target, start_ms: float
) -> None:
    record = replay(one_by_one([205, 225], start_ms), target)
    assert metrics.ttft_ms(record) == 205
    assert metrics.itl_ms(record) == [20]


@pytest.mark.parametrize("many", [1, 3])
def test_01_nor_are_several_empty_events(
    replay: Replay, target: Target, many: int
) -> None:
    empty = [(5 + k, "start") for k in range(many)]
    script = line(
        *empty, (205, "tokens", 1), (225, "tokens", 1), (225, "done")
    )
    record = replay(script, target)
    assert metrics.ttft_ms(record) == 205
    assert metrics.itl_ms(record) == [20]


def test_02_the_first_token_is_no_gap(replay: Replay, target: Target) -> None:
    record = replay(one_by_one([100, 120, 140]), target)
    assert metrics.itl_ms(record) == [20, 20]
    assert metrics.tpot_ms(record) == 20
    assert metrics.inter_chunk_ms(record) == []


def test_03_gaps_between_chunks_have_their_own_name(
    replay: Replay, target: Target
) -> None:
    script = line(
        (100, "tokens", 1),
        (130, "tokens", 3),
        (160, "tokens", 3),
        (160, "done"),
    )
    record = replay(script, target)
    assert record.ok
    assert record.new_tokens == 7
    assert metrics.tpot_ms(record) == 10
    assert metrics.itl_ms(record) == []
    assert metrics.inter_chunk_ms(record) == [30, 30]
    assert metrics.streamed(record)


def test_03_single_tokens_between_chunks(
    replay: Replay, target_at: Callable[[str], Target]
) -> None:
    script = line(
        *((100, "tokens", 1), (120, "tokens", 1), (150, "tokens", 2)),
        *((180, "tokens", 1), (200, "tokens", 1), (200, "done")),
    )
    target = target_at("http://127.0.0.1:9")
    record = replay(script, target)
    gaps = [*metrics.itl_ms(record), *metrics.inter_chunk_ms(record)]
    assert sorted(gaps) == [20, 20, 30, 30]
    if getattr(target, "usage_in_each", True):
        assert metrics.itl_ms(record) == [20, 20]
    else:
        # Six tokens in five chunks: which chunk has two is not known.
        assert metrics.itl_ms(record) == []
    assert laws.violations([record]) == []


def test_04_the_peak_counts_tokens(replay: Replay, target: Target) -> None:
    script = line((200, "tokens", 4), (900, "tokens", 4), (900, "done"))
    record = replay(script, target)
    if record.counted == "usage" and not getattr(target, "usage_in_each", 1):
        assert metrics.token_count(record) == 8
        return  # the chunks' own counts are not known
    assert rates.peak_tokens_per_s([record]) == 8
    assert rates.mean_tokens_per_s([record]) == 8


@pytest.mark.parametrize(
    ("times_ms", "peak", "mean"),
    [
        ([0.0], 1, 1.0),
        ([0.0, 999.0], 2, 2.0),
        ([0.0, 1000.0], 1, 1.0),
        ([0.0, 600.0, 1100.0, 1550.0], 3, 2.0),
        ([100.0 * k for k in range(25)], 10, 25 / 3),
    ],
)
def test_04_the_peak_is_never_below_the_mean(
    times_ms: list[float], peak: int, mean: float
) -> None:
    record = made("m000", times_ms)
    assert rates.peak_tokens_per_s([record]) == peak
    assert rates.mean_tokens_per_s([record]) == pytest.approx(mean)


def test_05_tokens_are_counted_by_the_server(
    replay: Replay, target: Target
) -> None:
    record = replay(one_by_one([100 + 10 * k for k in range(10)]), target)
    assert metrics.token_count(record) == 10
    assert rates.output_tokens([record]) == 10
    assert rates.output_throughput([record]) == 10 / 0.19


def test_05_chunks_stand_in_where_the_server_counts_nothing() -> None:
    reading = OpenAITarget("http://127.0.0.1:9", "m").reading()
    events = ['{"choices": [{"text": "a"}]}'] * 10 + ["[DONE]"]
    arrivals = [reading.feed("message", data, 5 * MS) for data in events]
    reading.check()
    assert [a.tokens for a in arrivals if a] == [1] * 10 + [0]
    assert reading.counted == "chunks"
    assert reading.new_tokens is None


@pytest.mark.parametrize(
    ("last", "failure"), [("done", "no_token"), ("end", "no_terminal_event")]
)
def test_06_no_token_is_a_failure(
    replay: Replay, target: Target, last: str, failure: str
) -> None:
    record = replay(line((5, "start"), (100, last)), target)
    assert record.failure == failure
    assert metrics.ttft_ms(record) is None
    assert metrics.e2e_ms(record) is None
    assert metrics.tpot_ms(record) is None
    assert metrics.streamed(record) is None
    assert metrics.pooled(metrics.ttft_ms, [record]) == []
    assert rates.output_throughput([record]) is None
    assert rates.peak_tokens_per_s([record]) is None
    assert laws.violations([record]) == []


def test_07_one_request_without_a_token_moves_nothing() -> None:
    fine = [made(f"m{k}", [100, 120], sent_ms=k) for k in range(3)]
    records = [*fine, made("m3", [], sent_ms=50, failure="no_token")]
    assert metrics.ttft_ms(records[3]) is None
    assert metrics.pooled(metrics.ttft_ms, records) == [100, 99, 98]
    assert rates.window_s(records) == 0.12
    assert laws.violations(records) == []


def test_08_one_token_has_no_tpot(replay: Replay, target: Target) -> None:
    record = replay(one_by_one([50]), target)
    assert record.ok
    assert metrics.ttft_ms(record) == 50
    assert metrics.tpot_ms(record) is None
    assert metrics.itl_ms(record) == []
    assert metrics.inter_chunk_ms(record) == []
    assert metrics.summary(metrics.pooled(metrics.tpot_ms, [record])) == (
        metrics.Summary(0, None, None, None, None, None, None)
    )
    strict = rates.Objectives(ttft_ms=50, tpot_ms=1e-9)
    assert rates.met(record, strict)
    assert not rates.met(record, rates.Objectives(ttft_ms=49.9))


@pytest.mark.parametrize(
    ("last", "failure"),
    [("error", "error_event"), ("end", "no_terminal_event")],
)
def test_09_tokens_alone_are_no_success(
    replay: Replay, target: Target, last: str, failure: str
) -> None:
    script = line((100, "tokens", 1), (120, "tokens", 1), (130, last))
    record = replay(script, target)
    assert record.failure == failure
    fine = made("m001", [200, 210])
    assert metrics.pooled(metrics.ttft_ms, [record, fine]) == [200]
    assert metrics.pooled(metrics.itl_ms, [record, fine]) == [10]
    assert metrics.failure_rate([record, fine]) == 0.5
    assert metrics.failures([record, fine]) == {failure: 1}
    assert rates.output_tokens([record, fine]) == 2


def test_10_refusals_count() -> None:
    refused = [made(f"r{k}", [], failure="http_429") for k in range(5)]
    fine = [made(f"m{k}", [100, 110]) for k in range(5)]
    records = [*refused, *fine]
    assert metrics.failure_rate(records) == 0.5
    assert metrics.pooled(metrics.ttft_ms, records) == [100] * 5
    objectives = rates.Objectives(ttft_ms=100)
    assert rates.goodput(records, objectives) == rates.Goodput(
        5, 10, 0.5, 5 / 0.11
    )


def test_11_nothing_divides_by_the_number_of_successes() -> None:
    for records in ([], [made("m0", [], failure="timeout")]):
        assert (
            metrics.summary(metrics.pooled(metrics.ttft_ms, records)).mean
            is None
        )
        assert rates.window_s(records) is None
        assert rates.output_throughput(records) is None
        assert rates.request_throughput(records) is None
        assert rates.goodput(records, rates.Objectives()).per_s is None
        assert laws.violations(records) == []
    assert metrics.failure_rate([]) is None
    assert rates.goodput([], rates.Objectives()).share is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_12_comments_are_ignored(
    replay: Replay, target: Target, place: int
) -> None:
    steps = [Step(100, "tokens", 1), Step(120, "tokens", 1), Step(120, "done")]
    steps.insert(
        place, Step(steps[place - 1].at_ms if place else 1, "comment")
    )
    record = replay(TimeLine(tuple(steps)), target)
    assert record.ok
    assert metrics.ttft_ms(record) == 100
    assert metrics.itl_ms(record) == [20]


def test_13_both_waits_are_there() -> None:
    records = [
        made(f"m{k}", [500.0 * (k + 1)], sent_ms=500.0 * k, due_ms=100.0 * k)
        for k in range(8)
    ]
    schedule_ms = metrics.pooled(metrics.e2e_from_schedule_ms, records)
    wire_ms = metrics.pooled(metrics.e2e_ms, records)
    assert statistics.fmean(schedule_ms) == 1900
    assert set(wire_ms) == {500}
    assert metrics.pooled(metrics.ttft_from_schedule_ms, records) == (
        schedule_ms
    )
    assert metrics.ttft_from_schedule_ms(made("c", [5])) is None


def test_14_the_schedule_is_absolute() -> None:
    offsets = schedule.constant_ns(200, 1000)
    assert offsets[-1] == 999 * 5 * MS
    assert offsets[1:4] == [5 * MS, 10 * MS, 15 * MS]


def test_15_prompts_are_disjoint() -> None:
    prompts = workload.random_ids(1000, [8] * 40, seed=3)
    again = workload.random_ids(1000, [8] * 40, seed=3)
    assert prompts == again
    assert len(set(prompts)) == 40


@pytest.mark.parametrize("asked", [1, 2, 8191])
def test_16_the_server_counts_what_was_asked(url: str, asked: int) -> None:
    ids = tuple(k % 49152 for k in range(asked))
    with Client(LabTarget(url)) as client:
        record = client.send(Request("m0", 1, prompt_ids=ids))
    assert record.ok, record.message
    assert record.prompt_tokens == asked
    with Client(OpenAITarget(url, "tiny")) as client:
        record = client.send(Request("m1", 1, prompt_ids=ids))
    assert record.ok, record.message
    assert record.prompt_tokens == asked


def test_17_a_percentile_lies_between() -> None:
    assert metrics.percentile([115, 315], 50) == 215
    assert metrics.percentile([315, 115], 50) == 215
    assert metrics.percentile(list(range(1, 11)), 50) == 5.5


def test_19_tokens_come_one_by_one(url: str, tiny: Any) -> None:
    """The next token is made only after the last one has arrived."""
    tiny.turns = threading.Semaphore(1)
    seen: list[Arrival] = []

    def arrived(_: str, arrival: Arrival) -> None:
        seen.append(arrival)
        if arrival.kind == "token":
            tiny.turns.release()

    with Client(LabTarget(url)) as client:
        record = client.send(
            Request("m0", 5, prompt_ids=(7,)), on_arrival=arrived
        )
    assert record.ok, record.message
    assert len(metrics.itl_ms(record)) == 4
    assert list(record.arrivals) == seen


def test_19_nothing_waits_to_be_sent(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = []
    whole = socket.socket.setsockopt

    def spy(self: socket.socket, *what: Any) -> Any:
        options.append(what)
        return whole(self, *what)

    monkeypatch.setattr(socket.socket, "setsockopt", spy)
    player = serve([one_by_one([1])])
    with Client(LabTarget(player.url)) as client:
        assert client.send(Request("m0", 1, text="a")).ok
    # Once by the client, once by the server.
    no_delay = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert options.count(no_delay) == 2


@pytest.mark.parametrize(
    ("times_ms", "streamed"),
    [
        ([400.0] * 20, False),
        ([400.0 + 0.05 * k for k in range(20)], False),
        ([100.0] + [400.0] * 19, False),
        ([400.0] * 2, False),
        ([100.0, 101.0], True),
        ([100.0 + 20 * k for k in range(20)], True),
        ([100.0] * 10 + [200.0] * 10, True),
        ([5.0 + 0.5 * k for k in range(200)], True),
        ([400.0], None),
    ],
)
def test_20_a_burst_is_flagged(
    times_ms: list[float], streamed: bool | None
) -> None:
    assert metrics.streamed(made("m0", times_ms)) is streamed


def test_20_a_burst_is_flagged_in_every_protocol(
    replay: Replay, target: Target
) -> None:
    script = line((5, "start"), (400, "tokens", 20), (400, "done"))
    assert metrics.streamed(replay(script, target)) is False


def test_23_units_are_in_the_names() -> None:
    units = ("_ns", "_ms", "_s", "_per_s")
    moments = [
        field.name
        for field in (
            *dataclasses.fields(Record),
            *dataclasses.fields(Arrival),
            *dataclasses.fields(rates.Objectives),
        )
        if field.type in ("int", "int | None", "float | None")
    ]
    counts = {"tokens", "new_tokens", "prompt_tokens", "status"}
    assert [n for n in moments if not n.endswith(units)] == [
        n for n in moments if n in counts
    ]
    timed = [
        name
        for name, function in inspect.getmembers(metrics, inspect.isfunction)
        if not name.startswith("_")
        and list(inspect.signature(function).parameters) == ["record"]
    ]
    untimed = {"chunks", "token_count", "streamed"}
    assert all(name.endswith("_ms") for name in set(timed) - untimed)
    assert set(timed) > untimed
