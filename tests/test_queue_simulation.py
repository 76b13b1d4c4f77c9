"""The simulated line: by hand, and what must hold of any of them."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.queue_simulation import (
    Visit,
    poisson_arrivals,
    simulate,
    with_spread,
)


def test_one_slot_by_hand() -> None:
    """The second waits for the first, the third for nobody."""
    found = simulate([0, 1, 10], [4, 2, 3])
    assert found == [Visit(0, 0, 4), Visit(1, 4, 6), Visit(10, 10, 13)]
    assert [visit.wait_s for visit in found] == [0, 3, 0]
    assert [visit.time_s for visit in found] == [4, 5, 3]


def test_two_slots_by_hand() -> None:
    """The third takes the slot that is free first, and may overtake."""
    found = simulate([0, 1, 2, 2], [10, 3, 1, 1], slots=2)
    assert [visit.start_s for visit in found] == [0, 1, 4, 5]
    assert [visit.end_s for visit in found] == [10, 4, 5, 6]


def test_nobody_comes() -> None:
    assert simulate([], []) == []
    assert poisson_arrivals(1, 0, Random(1)) == []
    assert with_spread(1, 1, 0, Random(1)) == []


def test_arrivals_before_zero_and_services_of_nothing() -> None:
    assert simulate([-5, -5], [0, 0]) == [Visit(-5, -5, -5)] * 2


MOMENTS = st.integers(0, 10_000)
LINES = st.lists(st.tuples(MOMENTS, st.integers(0, 500)), max_size=60)


@given(LINES, st.integers(1, 5))
def test_what_holds_of_every_line(
    line: list[tuple[int, int]], slots: int
) -> None:
    """Whole numbers, so that no rounding hides a fault."""
    arrivals_s = sorted(arrival for arrival, _ in line)
    services_s = [service for _, service in line]
    found = simulate(arrivals_s, services_s, slots)
    assert [visit.arrival_s for visit in found] == arrivals_s
    assert [visit.end_s - visit.start_s for visit in found] == services_s
    assert all(visit.wait_s >= 0 for visit in found)
    starts_s = [visit.start_s for visit in found]
    assert starts_s == sorted(starts_s)
    for visit in found:
        # Ends go before starts of the same moment.
        running = sum(v.start_s <= visit.start_s < v.end_s for v in found)
        assert running <= slots
        if visit.wait_s:  # who waits sees every slot busy until it starts
            before = visit.start_s - 0.5
            busy = sum(v.start_s <= before < v.end_s for v in found)
            assert busy == slots


@given(LINES)
def test_one_slot_is_lindleys_recursion(line: list[tuple[int, int]]) -> None:
    """wait[n + 1] = max(0, wait[n] + service[n] - gap[n])."""
    arrivals_s = sorted(arrival for arrival, _ in line)
    found = simulate(arrivals_s, [service for _, service in line])
    if found:
        assert found[0].wait_s == 0
    for one, following in pairwise(found):
        gap_s = following.arrival_s - one.arrival_s
        service_s = one.end_s - one.start_s
        assert following.wait_s == max(0, one.wait_s + service_s - gap_s)


@given(LINES, st.integers(1, 4))
def test_the_time_in_system_is_the_time_integral(
    line: list[tuple[int, int]], slots: int
) -> None:
    """Little's law, in a window that starts and ends empty."""
    arrivals_s = sorted(arrival for arrival, _ in line)
    found = simulate(arrivals_s, [service for _, service in line], slots)
    changes = sorted(
        [(visit.arrival_s, 1) for visit in found]
        + [(visit.end_s, -1) for visit in found]
    )
    inside, integral = 0, 0.0
    for (moment, change), (following, _) in pairwise(changes):
        inside += change
        integral += inside * (following - moment)
    assert integral == sum(visit.time_s for visit in found)


BAD = [
    ([0, 1], [1], 1, "2 arrivals and 1 service"),
    ([0, math.nan], [1, 1], 1, "not finite"),
    ([0, math.inf], [1, 1], 1, "not finite"),
    ([0, 1], [1, math.inf], 1, "not finite"),
    ([1, 0], [1, 1], 1, "not in order"),
    ([0, 1], [1, -1], 1, "negative"),
    ([0], [1], 0, "slots is 0"),
    ([0], [1], -1, "slots is -1"),
    ([0], [1], 1.5, "slots is 1.5"),
    ([0], [1], math.nan, "slots is nan"),
]


@pytest.mark.parametrize(("arrivals", "services", "slots", "says"), BAD)
def test_a_line_that_cannot_be_is_refused(
    arrivals: list[float], services: list[float], slots: int, says: str
) -> None:
    with pytest.raises(LabError, match=says):
        simulate(arrivals, services, slots)


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
def test_rates_and_means_that_cannot_be_are_refused(bad: float) -> None:
    with pytest.raises(LabError, match="rate"):
        poisson_arrivals(bad, 3, Random(1))
    with pytest.raises(LabError, match="mean"):
        with_spread(bad, 1, 3, Random(1))
    with pytest.raises(LabError, match="variation"):
        with_spread(1, bad, 3, Random(1))


@pytest.mark.parametrize("count", [-1, 1.5, math.nan])
def test_counts_that_cannot_be_are_refused(count: int) -> None:
    for variation in (0, 1):
        with pytest.raises(LabError, match="count"):
            with_spread(1, variation, count, Random(1))
    with pytest.raises(LabError, match="count"):
        poisson_arrivals(1, count, Random(1))


def test_no_arrivals_at_a_rate_of_zero() -> None:
    with pytest.raises(LabError, match="above 0"):
        poisson_arrivals(0, 3, Random(1))


def test_gaps_of_arrivals_are_exponential() -> None:
    """Mean, median and spread; the first gap, from 0, is one of them."""
    found = poisson_arrivals(50, 40_000, Random(3))
    gaps = [found[0], *(b - a for a, b in pairwise(found))]
    error = 0.02 / math.sqrt(len(gaps))
    assert statistics.fmean(gaps) == pytest.approx(0.02, abs=4 * error)
    assert statistics.median(gaps) == pytest.approx(
        0.02 * math.log(2), rel=0.03
    )
    assert statistics.stdev(gaps) == pytest.approx(0.02, rel=0.03)
    firsts = [poisson_arrivals(50, 1, Random(n))[0] for n in range(2000)]
    assert statistics.fmean(firsts) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("variation", [0.1, 0.5, 1, 2])
def test_services_have_the_mean_and_the_variation(variation: float) -> None:
    found = with_spread(0.2, variation, 60_000, Random(4))
    mean_s = statistics.fmean(found)
    error = 0.2 * variation / math.sqrt(len(found))
    assert mean_s == pytest.approx(0.2, abs=4 * error)
    assert statistics.stdev(found) / mean_s == pytest.approx(
        variation, rel=0.05
    )
    assert min(found) >= 0


def test_a_variation_of_one_is_exponential() -> None:
    found = with_spread(1, 1, 40_000, Random(5))
    for limit in (0.1, 1, 3):
        share = sum(value > limit for value in found) / len(found)
        assert share == pytest.approx(math.exp(-limit), abs=0.01)


@pytest.mark.parametrize("variation", [0, 1e-300, 1e-7])
def test_services_without_variation_are_constant(variation: float) -> None:
    assert with_spread(0.2, variation, 3, Random(1)) == [0.2] * 3


@given(st.floats(0, 100), st.floats(0, 1e6))
def test_every_variation_gives_services(
    variation: float, mean_s: float
) -> None:
    found = with_spread(mean_s, variation, 5, Random(1))
    assert all(math.isfinite(value) and value >= 0 for value in found)


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[Visit]:
        drawn = Random(seed)
        arrivals_s = poisson_arrivals(0.8, 50, drawn)
        return simulate(arrivals_s, with_spread(1, 1, 50, drawn))

    assert run(1) == run(1)
    assert run(1) != run(2)
