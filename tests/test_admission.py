"""A line that refuses, against formulas and the line that does not."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

import pytest

from labkit import admission, queueing
from labkit.errors import LabError
from labkit.loadtest import drive, schedule
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.records import Request
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.timelines import one_by_one
from labkit.queue_simulation import poisson_arrivals, simulate, with_spread


def waits_of_lesson_10(
    arrivals: Sequence[float],
    services: Sequence[float],
    limit: float = float("inf"),
) -> list[float | None]:
    """As lesson 10 builds it."""
    found: list[float | None] = []
    ends: deque[float] = deque()
    for at, service in zip(arrivals, services, strict=True):
        while ends and ends[0] <= at:
            ends.popleft()
        if len(ends) > limit:
            found.append(None)
        else:
            start = ends[-1] if ends else at
            ends.append(start + service)
            found.append(start - at)
    return found


def test_by_hand() -> None:
    found = admission.visits([0, 1, 2, 3, 9], [5] * 5, max_waiting=1)
    assert [v and (v.start_s, v.end_s) for v in found] == [
        *((0, 5), (5, 10), None, None, (10, 15))
    ]


def test_a_place_is_free_at_the_moment_of_an_end() -> None:
    found = admission.visits([0, 5, 5, 5], [5] * 4, max_waiting=1)
    assert [v and v.wait_s for v in found] == [0, 0, 5, None]


def test_without_a_bound_it_is_the_other_simulation() -> None:
    drawn = random.Random(1)
    arrivals = poisson_arrivals(0.9, 500, drawn)
    services = with_spread(1.0, 1.0, 500, drawn)
    assert admission.visits(arrivals, services) == simulate(arrivals, services)
    wide = admission.visits(arrivals, services, max_waiting=500)
    assert wide == simulate(arrivals, services)


@pytest.mark.parametrize("limit", [0, 1, 2, 7])
def test_the_lesson_builds_the_same(limit: int) -> None:
    drawn = random.Random(limit)
    arrivals = poisson_arrivals(1.3, 2000, drawn)
    services = with_spread(1.0, 0.5, 2000, drawn)
    found = admission.visits(arrivals, services, limit)
    assert [v and v.wait_s for v in found] == waits_of_lesson_10(
        arrivals, services, limit
    )
    assert any(v is None for v in found)


@pytest.mark.parametrize("variation", [0.0, 1.0])
@pytest.mark.parametrize("load", [0.3, 0.7, 1.5])
def test_nobody_waits(load: float, variation: float) -> None:
    """Erlang's share holds for any service times."""
    drawn = random.Random(3)
    arrivals = poisson_arrivals(load, 60_000, drawn)
    services = with_spread(1.0, variation, 60_000, drawn)
    found = admission.visits(arrivals, services, max_waiting=0)
    assert found.count(None) / 60_000 == pytest.approx(
        queueing.erlang_b(load), abs=0.01
    )


def test_a_bounded_line_of_mm1() -> None:
    """M/M/1/K, K in the system at most: (1 - a) a^K / (1 - a^(K + 1))."""
    load, waiting = 0.8, 3
    drawn = random.Random(4)
    arrivals = poisson_arrivals(load, 100_000, drawn)
    services = with_spread(1.0, 1.0, 100_000, drawn)
    found = admission.visits(arrivals, services, waiting)
    most = waiting + 1
    expected = (1 - load) * load**most / (1 - load ** (most + 1))
    assert found.count(None) / 100_000 == pytest.approx(expected, abs=0.006)


def test_a_scripted_server_does_the_same() -> None:
    """Request by request, fed with the moments at which it read them."""
    offsets = schedule.poisson_ns(100, 80, seed=5)
    requests = [Request(f"m{k}", 1, text="Hi") for k in range(80)]
    script = [one_by_one([20.0]), one_by_one([5.0])]
    with ScriptedServer(script, slots=1, max_waiting=2) as server:
        client = Client(LabTarget(server.url))
        drive.open_loop(client, requests, offsets)
        played = server.truth()
    first = played[0].read_ns
    found = admission.visits(
        [(each.read_ns - first) / 1e9 for each in played],
        [0.02 if each.line == 0 else 0.005 for each in played],
        max_waiting=2,
    )
    assert any(visit is None for visit in found)
    for visit, each in zip(found, played, strict=True):
        if visit is None:
            assert each.start_ns is None
        else:
            assert each.start_ns is not None
            start_s = (each.start_ns - first) / 1e9
            assert visit.start_s == pytest.approx(start_s, abs=1e-6)


def test_bad_input() -> None:
    with pytest.raises(LabError, match="max_waiting is -1"):
        admission.visits([0.0], [1.0], -1)
    with pytest.raises(LabError, match="1 arrivals and 2"):
        admission.visits([0.0], [1.0, 1.0], 1)
    with pytest.raises(LabError, match="load is -1"):
        queueing.erlang_b(-1)
