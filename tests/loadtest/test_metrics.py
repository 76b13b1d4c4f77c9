"""Metrics, rates and laws on records made by hand."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import stats
from labkit.errors import LabError
from labkit.loadtest import laws, metrics, rates
from labkit.loadtest.records import Arrival, Record

MS = 1_000_000
FINITE = st.floats(-1e5, 1e5)


def made(name: str, *chunks: tuple[float, int], **fields: Any) -> Record:
    """Chunks as (ms, tokens); sent at 0 unless `fields` say otherwise."""
    arrivals = [
        Arrival(round(ms * MS), "token", (1,) * tokens, tokens)
        for ms, tokens in chunks
    ]
    done_ms = chunks[-1][0] if chunks else 0.0
    arrivals.append(Arrival(round(done_ms * MS), "done"))
    record = Record(
        name,
        sent_ns=0,
        end_ns=round(done_ms * MS),
        arrivals=tuple(arrivals),
        new_tokens=sum(tokens for _, tokens in chunks),
        counted="ids",
    )
    return replace(record, **fields)


@given(st.lists(FINITE, max_size=250), st.floats(0, 100))
def test_percentiles_are_those_of_the_course(
    values: list[float], q: float
) -> None:
    ours, theirs = metrics.percentile(values, q), stats.percentile(values, q)
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-6)


@given(st.lists(FINITE, min_size=100, max_size=150))
def test_percentiles_are_those_of_numpy_and_the_library(
    values: list[float],
) -> None:
    inclusive = statistics.quantiles(values, n=100, method="inclusive")
    for q in (1, 50, 90, 95, 99):
        found = metrics.percentile(values, q)
        assert found == pytest.approx(np.percentile(values, q), abs=1e-6)
        assert found == pytest.approx(inclusive[q - 1], abs=1e-6)


def test_no_p99_under_a_hundred() -> None:
    assert metrics.percentile(range(99), 99) is None
    assert metrics.percentile(range(100), 99) == pytest.approx(98.01)
    assert metrics.percentile(range(999), 99.9) is None
    assert metrics.percentile(range(1000), 99.9) is not None
    assert metrics.percentile([7], 95) == 7
    assert metrics.percentile([7, 9], 100) == 9
    assert metrics.percentile([], 50) is None
    with pytest.raises(LabError, match="between 0 and 100"):
        metrics.percentile([1], 101)


def test_a_summary_says_all() -> None:
    found = metrics.summary([3.0, 1.0, 2.0])
    assert (found.count, found.mean, found.maximum) == (3, 2, 3)
    assert (found.p50, found.p99) == (2, None)
    assert found.p90 == pytest.approx(2.8)
    assert found.p95 == pytest.approx(2.9)


def test_every_time_of_one_request() -> None:
    record = made(
        "m0",
        (300, 1),
        (320, 1),
        sent_ns=200 * MS,
        due_ns=150 * MS,
        connected_ns=210 * MS,
        end_ns=330 * MS,
        queued_ns=5 * MS,
        start_ns=12 * MS,
    )
    assert metrics.ttft_ms(record) == 100
    assert metrics.ttft_after_connect_ms(record) == 90
    assert metrics.ttft_from_schedule_ms(record) == 150
    assert metrics.e2e_ms(record) == 120
    assert metrics.e2e_from_schedule_ms(record) == 170
    assert metrics.stream_ms(record) == 130
    assert metrics.queue_ms(record) == 7
    assert metrics.queue_ms(replace(record, queued_ns=None)) is None
    reused = replace(record, connected_ns=None)
    assert metrics.ttft_after_connect_ms(reused) == 100


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 4)),
        min_size=1,
        max_size=20,
    )
)
def test_gaps_add_up(steps: list[tuple[int, int]]) -> None:
    now, chunks = 0.0, []
    for gap, tokens in steps:
        now += gap
        chunks.append((now, tokens))
    record = made("m0", *chunks)
    gaps = [*metrics.itl_ms(record), *metrics.inter_chunk_ms(record)]
    e2e, ttft = metrics.e2e_ms(record), metrics.ttft_ms(record)
    assert e2e is not None
    assert ttft is not None
    assert sum(gaps) == pytest.approx(e2e - ttft)
    assert len(metrics.chunks(record)) == len(gaps) + 1
    assert laws.violations([record]) == []


def test_throughput_is_over_the_window() -> None:
    records = [
        made("m0", (100, 1), (500, 9)),
        made("m1", (900, 5), sent_ns=100 * MS, end_ns=2000 * MS),
        made("m2", (50, 7), failure="timeout", sent_ns=0),
    ]
    assert rates.window_s(records) == 0.9
    early = made("m3", failure="http_429", sent_ns=-100 * MS)
    assert rates.window_s([*records, early]) == 1.0
    assert rates.output_tokens(records) == 15
    assert rates.output_throughput(records) == pytest.approx(15 / 0.9)
    assert rates.request_throughput(records) == pytest.approx(2 / 0.9)


def test_goodput_needs_every_objective() -> None:
    record = made("m0", (100, 1), (300, 4))
    ok = rates.Objectives(
        ttft_ms=100, tpot_ms=50, e2e_ms=300, ttft_from_schedule_ms=None
    )
    assert rates.met(record, ok)
    for name, bound in (("ttft_ms", 99), ("tpot_ms", 49), ("e2e_ms", 299)):
        assert not rates.met(record, replace(ok, **{name: bound}))
    # Undefined, in a closed loop: it cannot be met.
    asked = replace(ok, ttft_from_schedule_ms=1e9)
    assert not rates.met(record, asked)
    assert rates.met(replace(record, due_ns=0), asked)
    assert not rates.met(replace(record, failure="timeout"), ok)


SPANS = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    min_size=1,
    max_size=30,
)


@given(SPANS)
def test_in_flight_obeys_littles_law(spans: list[tuple[int, int]]) -> None:
    number, law = rates.mean_in_flight(spans), rates.rate_times_time(spans)
    assert number == pytest.approx(law)
    assert number is not None
    assert number <= rates.peak_in_flight(spans) <= len(spans)


def test_in_flight_is_counted_event_by_event() -> None:
    spans = [(0, 10), (5, 15), (20, 30)]
    assert rates.mean_in_flight(spans) == pytest.approx(30 / 30)
    assert rates.peak_in_flight(spans) == 2
    assert rates.peak_in_flight([(0, 5), (5, 9)]) == 1
    assert rates.mean_in_flight([]) is None
    assert rates.mean_in_flight([(3, 3)]) is None
    assert rates.rate_times_time([]) is None


def test_spans_are_the_servers_own() -> None:
    done = Arrival(300 * MS, "done", server_ns=290 * MS)
    token = Arrival(280 * MS, "token", (1,), 1)
    record = Record(
        "m0", 0, 301 * MS, arrivals=(token, done), queued_ns=10 * MS
    )
    assert rates.server_spans([record]) == [(10 * MS, 290 * MS)]
    assert rates.client_spans([record]) == [(0, 301 * MS)]
    assert rates.server_spans([replace(record, queued_ns=None)]) == []
    assert rates.server_spans([replace(record, arrivals=(token,))]) == []


GOOD = made("m0", (100, 1), (120, 1), due_ns=0, connected_ns=1)
EARLY = Arrival(50 * MS, "token", (1,), 1)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (replace(GOOD, arrivals=(*GOOD.arrivals, EARLY)), "not in the order"),
        (replace(GOOD, end_ns=110 * MS), "after the end"),
        (replace(GOOD, end_ns=-1), "before it was sent"),
        (replace(GOOD, due_ns=1), "before it was due"),
        (replace(GOOD, connected_ns=-1), "connected before"),
        (replace(GOOD, sent_ns=101 * MS), "0 <= TTFT"),
        (replace(GOOD, new_tokens=3), "2 tokens arrived"),
        (replace(GOOD, arrivals=()), "succeeded without a token"),
        (GOOD, "there 2 times"),
    ],
)
def test_a_broken_law_is_named(fault: Record, sentence: str) -> None:
    assert laws.violations([GOOD]) == []
    records = [fault, GOOD] if fault is GOOD else [fault]
    assert any(sentence in each for each in laws.violations(records))
