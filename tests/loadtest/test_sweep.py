"""The search, on simulated servers whose highest rate is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest

from labkit.errors import LabError
from labkit.loadtest.rates import Objectives
from labkit.loadtest.records import Arrival, Record
from labkit.loadtest.sweep import (
    Count,
    Measure,
    Probe,
    Search,
    best,
    highest_rate,
    levels,
    sweep,
)
from labkit.queue_simulation import poisson_arrivals, simulate

SERVICE_S = 0.05
CAPACITY = 1 / SERVICE_S
MS = 1_000_000


def counts(moments: list[float], longest_s: float, skip: int = 0) -> Count:
    """Who waits no longer than that, after the first few."""
    visits = simulate(moments, [SERVICE_S] * len(moments))[skip:]
    return Count(sum(v.wait_s <= longest_s for v in visits), len(visits))


def even(rate_per_s: float) -> list[Count]:
    """Evenly spaced: nobody waits up to capacity."""
    moments = [k / rate_per_s for k in range(300)]
    return [counts(moments, SERVICE_S / 2)] * 2


def at_random(
    seed: int, runs: int = 10, requests: int = 300, wait: float = 2.5
) -> Measure:
    """Poisson arrivals: M/D/1."""
    drawn = random.Random(seed)

    def measure(rate_per_s: float) -> Iterator[Count]:
        for _ in range(runs):
            moments = poisson_arrivals(rate_per_s, requests, drawn)
            yield counts(moments, wait * SERVICE_S, skip=30)

    return lambda rate: list(measure(rate))


def md1_per_s(goal: float, wait: float) -> float:
    """By Erlang's distribution of the wait in M/D/1, 1909."""

    def share(load: float) -> float:
        terms = [load * (k - wait) for k in range(int(wait) + 1)]
        return (1 - load) * sum(
            x**k / math.factorial(k) * math.exp(-x)
            for k, x in enumerate(terms)
        )

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) >= goal else (low, middle)
    return low * CAPACITY


def bounds(search: Search) -> tuple[float, float, float]:
    assert search.low is not None
    assert search.estimate is not None
    assert search.high is not None
    return search.low, search.estimate, search.high


def test_evenly_spaced_up_to_capacity() -> None:
    found = highest_rate(even, 5.0, 40.0, goal=0.99, tolerance=0.02)
    low, estimate, high = bounds(found)
    assert low <= 1.01 * CAPACITY
    assert high - low <= 0.02 * high
    assert estimate == pytest.approx(CAPACITY, rel=0.02)
    assert not found.undecided


@pytest.mark.parametrize("wait", [1.5, 2.5, 4.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_arrivals(seed: int, wait: float) -> None:
    known = md1_per_s(0.9, wait)
    low, estimate, high = bounds(
        highest_rate(at_random(seed, wait=wait), 4.0, 20.0, goal=0.9)
    )
    assert low <= known <= high
    assert estimate == pytest.approx(known, rel=0.05)


def test_most_searches_enclose_the_rate() -> None:
    known = md1_per_s(0.9, 2.5)
    found = [
        highest_rate(at_random(seed, 8, 200), 8.0, 20.0, goal=0.9)
        for seed in range(20)
    ]
    inside = sum(low <= known <= high for low, _, high in map(bounds, found))
    assert inside >= 17


def test_near_the_border_it_measures_again() -> None:
    asked: list[float] = []
    noisy = at_random(5)

    def measure(rate_per_s: float) -> list[Count]:
        asked.append(rate_per_s)
        return list(noisy(rate_per_s))

    found = highest_rate(measure, 8.0, 20.0, goal=0.9, most_repeats=3)
    assert {asked.count(rate) for rate in asked} == {1, 2, 3}
    for probe in found.probes:
        assert len(probe.runs) == 10 * asked.count(probe.rate_per_s)
    assert asked.count(8.0) == asked.count(20.0) == 1
    assert found.undecided
    assert asked.count(found.undecided[0]) == 3


def test_more_runs_make_it_narrower() -> None:
    few, many = (
        bounds(
            highest_rate(at_random(1, runs, 300), 8, 20, goal=0.9, tolerance=t)
        )
        for runs, t in ((6, 0.05), (60, 0.01))
    )
    assert many[2] - many[0] < (few[2] - few[0]) / 2


def exact(border: float) -> Callable[[float], list[Count]]:
    return lambda rate: [Count(10 if rate <= border else 0, 10)] * 2


def test_plain_bisection_where_nothing_is_in_doubt() -> None:
    found = highest_rate(exact(7.3), 4, 12, goal=0.9, tolerance=0.05)
    rates = [probe.rate_per_s for probe in found.probes]
    assert rates == [4, 6, 7, 7.25, 7.5, 8, 12]
    assert (found.low, found.high) == (7.25, 7.5)


def test_what_is_known_is_not_measured() -> None:
    asked: list[float] = []

    def measure(rate_per_s: float) -> list[Count]:
        asked.append(rate_per_s)
        return exact(7.3)(rate_per_s)

    known = [Probe(6, (Count(10, 10),) * 2), Probe(8, (Count(0, 10),) * 2)]
    highest_rate(measure, 4, 12, goal=0.9, known=known)
    assert asked == [7, 7.5, 7.25]


def test_at_most_so_many_probes() -> None:
    found = highest_rate(exact(7.3), 4, 12, goal=0.9, most_probes=4)
    assert len(found.probes) == 4


@pytest.mark.parametrize(
    ("border", "low", "high"), [(1.0, None, 4), (99.0, 12, None)]
)
def test_a_border_outside_is_not_made_up(
    border: float, low: float | None, high: float | None
) -> None:
    found = highest_rate(exact(border), 4, 12, goal=0.9)
    assert (found.low, found.high) == (low, high)
    assert found.estimate is None


def share_of(rate: float, share: float) -> Probe:
    """All runs alike: no doubt."""
    return Probe(rate, (Count(round(1000 * share), 1000),) * 2)


def doubtful(rate: float, share: float) -> Probe:
    runs = (Count(round(1000 * share) - 50, 1000),)
    return Probe(rate, (*runs, Count(round(1000 * share) + 50, 1000)))


def test_the_estimate_lies_on_the_line_between_two_shares() -> None:
    search = Search(0.9, 0.95, (share_of(4, 1.0), share_of(8, 0.6)))
    assert search.estimate == pytest.approx(5.0)
    assert (search.low, search.high) == (4, 8)


def test_both_sides_of_what_is_undecided_are_narrowed() -> None:
    search = Search(
        0.9, 0.95, (share_of(4, 1.0), doubtful(7, 0.91), share_of(9, 0.5))
    )
    assert search.undecided == (7,)
    assert search.next_rate(0.01) == 5.5
    narrower = search.with_probe(share_of(5.5, 0.99))
    assert narrower.next_rate(0.01) == 8
    assert narrower.next_rate(0.3) is None


def test_what_misses_by_chance_bounds_what_meets_above_it() -> None:
    probes = (share_of(4, 1.0), share_of(6, 0.5), share_of(7, 0.95))
    search = Search(0.9, 0.95, probes)
    assert (search.low, search.high) == (4, 6)


def test_a_rate_is_replaced_and_not_doubled() -> None:
    search = Search(0.9, 0.95, (doubtful(7, 0.9),))
    assert search.with_probe(share_of(7, 1.0)).probes == (share_of(7, 1.0),)


def test_an_interval_is_of_runs_and_stays_within_shares() -> None:
    probe = Probe(5, (Count(90, 100), Count(100, 100)))
    assert probe.share == 0.95
    seen = probe.interval(0.95)
    # 0.95 -+ 12.706 x 0.0707 / sqrt 2
    assert seen.low == pytest.approx(0.95 - 0.6353, abs=1e-3)
    assert seen.high == 1.0
    assert probe.verdict(0.9, 0.95) == "undecided"
    assert probe.verdict(0.3, 0.95) == "meets"


def test_what_just_meets_the_goal_meets_it() -> None:
    assert share_of(5, 0.9).verdict(0.9, 0.95) == "meets"
    assert share_of(5, 0.899).verdict(0.9, 0.95) == "misses"


@pytest.mark.parametrize("runs", [(), (Count(1, 1),), (Count(0, 0),) * 2])
def test_one_run_does_not_tell_how_far_runs_differ(
    runs: tuple[Count, ...],
) -> None:
    with pytest.raises(LabError, match="measure two or more"):
        Probe(5.0, runs)


@pytest.mark.parametrize(
    ("low", "high", "goal", "tolerance", "said"),
    [
        (2, 2, 0.9, 0.05, "nothing between"),
        (0, 2, 0.9, 0.05, "nothing between"),
        (1, 2, 0.0, 0.05, "A goal of 0"),
        (1, 2, 1.1, 0.05, "A goal of 1.1"),
        (1, 2, 0.9, 0.0, "a tolerance of 0"),
    ],
)
def test_bad_terms(
    low: float, high: float, goal: float, tolerance: float, said: str
) -> None:
    with pytest.raises(LabError, match=said):
        highest_rate(even, low, high, goal=goal, tolerance=tolerance)


# Goodput over the rate -----------------------------------------------------


def record(name: str, sent_ms: int, ttft_ms: int | None) -> Record:
    """An answer of one token, or a refusal."""
    sent = sent_ms * MS
    if ttft_ms is None:
        return Record(name, sent, sent + MS, failure="http_429", status=429)
    at = sent + ttft_ms * MS
    token = Arrival(at, "token", (1,), 1)
    return Record(name, sent, at, arrivals=(token,), status=200, new_tokens=1)


RUNS = {
    8.0: [record("a", 0, 100), record("b", 100, 900), record("c", 200, 900)],
    4.0: [record("a", 0, 100), record("b", 250, 100), record("c", 500, None)],
    2.0: [record("a", 0, None)],
}


def test_levels_of_a_sweep() -> None:
    found = levels(RUNS, Objectives(ttft_ms=200))
    assert [level.rate_per_s for level in found] == [2.0, 4.0, 8.0]
    assert [level.goodput.met for level in found] == [0, 2, 1]
    assert [level.goodput.total for level in found] == [1, 3, 3]
    assert found[1].goodput.per_s == pytest.approx(2 / 0.35)
    assert found[1].throughput_per_s == pytest.approx(2 / 0.35)
    assert found[2].throughput_per_s == pytest.approx(3 / 1.1)
    assert found[0].goodput.per_s is None


def test_the_best_level_is_not_that_of_most_answers() -> None:
    found = best(levels(RUNS, Objectives(ttft_ms=200)))
    assert found is not None
    assert found.rate_per_s == 4.0
    assert best(levels({2.0: RUNS[2.0]}, Objectives())) is None
    assert best([]) is None


def test_a_sweep_keeps_each_rate_with_its_records() -> None:
    found = sweep(lambda rate: RUNS[rate], RUNS, together=3)
    assert found == RUNS
