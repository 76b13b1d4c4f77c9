"""Queueing formulas: by hand, from tables, and against the simulation."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import queueing, stats
from labkit.errors import LabError
from labkit.queue_simulation import (
    Visit,
    poisson_arrivals,
    simulate,
    with_spread,
)

CONFIDENCE = 0.999
"""Of the interval that must hold a formula's value."""


def test_a_slot_at_80_percent_by_hand() -> None:
    """80 requests/s of 10 ms each."""
    assert queueing.utilization(80, 0.01) == pytest.approx(0.8)
    assert queueing.mm1_wait_s(80, 0.01) == pytest.approx(0.040)
    assert queueing.md1_wait_s(80, 0.01) == pytest.approx(0.020)
    # E[S²] = 0.0001 + 0.0003; 80 x 0.0004 / 0.4
    assert queueing.mg1_wait_s(80, 0.01, 3e-4) == pytest.approx(0.080)


def test_the_law_and_the_utilization_by_hand() -> None:
    assert queueing.in_system(80, 0.05) == pytest.approx(4)
    assert queueing.utilization(30, 0.1, slots=4) == pytest.approx(0.75)
    assert queueing.utilization(30, 0.1, slots=1) == pytest.approx(3)
    assert queueing.in_system(0, 3) == queueing.utilization(0, 3) == 0


# By hand with the textbook's sums; the last is from tables of Erlang C.
ERLANG_C = [
    (0.5, 1, 0.5),
    (1.0, 2, 1 / 3),
    (1.5, 2, 9 / 14),
    (2.0, 3, 4 / 9),
    (8.0, 10, 0.4092),
]


@pytest.mark.parametrize(("offered", "slots", "probability"), ERLANG_C)
def test_erlang_c_as_in_tables(
    offered: float, slots: int, probability: float
) -> None:
    found = queueing.erlang_c(offered, 1.0, slots)
    assert found == pytest.approx(probability, abs=5e-5)


@pytest.mark.parametrize("slots", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("busy", [Fraction(1, 10), Fraction(9, 10)])
def test_erlang_c_is_the_sum_of_factorials(slots: int, busy: Fraction) -> None:
    offered = busy * slots
    terms = [offered**k / math.factorial(k) for k in range(slots)]
    last = offered**slots / math.factorial(slots) / (1 - busy)
    exact = last / (sum(terms) + last)
    found = queueing.erlang_c(float(offered), 1.0, slots)
    assert found == pytest.approx(float(exact), rel=1e-12)


def test_thousands_of_slots_overflow_nothing() -> None:
    found = queueing.erlang_c(4900, 1.0, 5000)
    assert found is not None
    assert 0 < found < 0.2


def test_a_wait_of_two_slots_by_hand() -> None:
    """P(wait) = 1/3, and 1/3 x 1 / (2 - 1)."""
    assert queueing.mmc_wait_s(1, 1, 2) == pytest.approx(1 / 3)
    assert queueing.mgc_wait_s(1, 1, 0, 2) == pytest.approx(1 / 6)
    assert queueing.mgc_wait_s(1, 1, 4, 2) == pytest.approx(5 / 6)


def test_percentiles_by_hand() -> None:
    """At a half: P(wait > t) = exp(-t / 2) / 2, P(time > t) = exp(-t / 2)."""
    wait = queueing.mm1_wait_percentile_s
    assert wait(0.5, 1, 99) == pytest.approx(2 * math.log(50))
    assert wait(0.5, 1, 50) == wait(0.5, 1, 49) == wait(0.5, 1, 0) == 0
    assert wait(0.5, 1, 75) == pytest.approx(2 * math.log(2))
    time = queueing.mm1_time_percentile_s
    assert time(0.5, 1, 99) == pytest.approx(2 * math.log(100))
    assert time(0.5, 1, 0) == 0
    several = queueing.mmc_wait_percentile_s
    assert several(1, 1, 2, 90) == pytest.approx(math.log(10 / 3))
    assert several(1, 1, 2, 60) == 0


def test_an_idle_system_has_no_wait() -> None:
    assert queueing.mg1_wait_s(0, 1, 1) == queueing.mmc_wait_s(0, 1, 3) == 0
    assert queueing.mg1_wait_s(5, 0, 0) == queueing.mgc_wait_s(5, 0, 0, 2) == 0
    assert queueing.erlang_c(0, 1, 3) == 0
    assert queueing.mm1_wait_percentile_s(0, 1, 99) == 0
    assert queueing.mm1_time_percentile_s(0, 1, 50) == pytest.approx(
        math.log(2)
    )


FULL: list[Callable[[float], float | None]] = [
    lambda rate: queueing.mg1_wait_s(rate, 0.01, 0.5),
    lambda rate: queueing.mm1_wait_s(rate, 0.01),
    lambda rate: queueing.md1_wait_s(rate, 0.01),
    lambda rate: queueing.mm1_wait_percentile_s(rate, 0.01, 50),
    lambda rate: queueing.mm1_time_percentile_s(rate, 0.01, 50),
    lambda rate: queueing.erlang_c(rate, 0.03, 3),
    lambda rate: queueing.mmc_wait_s(rate, 0.03, 3),
    lambda rate: queueing.mgc_wait_s(rate, 0.03, 0.1, 3),
    lambda rate: queueing.mmc_wait_percentile_s(rate, 0.03, 3, 50),
]


@pytest.mark.parametrize("wait", FULL)
def test_at_capacity_and_over_it_there_is_no_wait_to_name(
    wait: Callable[[float], float | None],
) -> None:
    assert wait(100) is wait(250) is None
    assert wait(99.9) is not None


def test_bounds_of_a_closed_loop_by_hand() -> None:
    """10 ms of service, 90 ms of thinking: the lines cross at 10 clients."""
    one = queueing.closed_loop_bounds(1, 0.01, 0.09)
    assert (one.rate_per_s, one.time_s) == pytest.approx((10, 0.01))
    ten = queueing.closed_loop_bounds(10, 0.01, 0.09)
    assert (ten.rate_per_s, ten.time_s) == pytest.approx((100, 0.01))
    many = queueing.closed_loop_bounds(40, 0.01, 0.09)
    assert (many.rate_per_s, many.time_s) == pytest.approx((100, 0.31))
    several = queueing.closed_loop_bounds(40, 0.01, 0.09, slots=2)
    assert (several.rate_per_s, several.time_s) == pytest.approx((200, 0.11))
    without = queueing.closed_loop_bounds(3, 0.5)
    assert (without.rate_per_s, without.time_s) == pytest.approx((2, 1.5))


# Bad input ------------------------------------------------------------------

BAD: list[tuple[Callable[[float], object], str]] = [
    (lambda x: queueing.utilization(x, 1), "rate_per_s"),
    (lambda x: queueing.utilization(1, x), "mean_s"),
    (lambda x: queueing.in_system(x, 1), "rate_per_s"),
    (lambda x: queueing.in_system(1, x), "time_s"),
    (lambda x: queueing.mg1_wait_s(x, 1, 1), "rate_per_s"),
    (lambda x: queueing.mg1_wait_s(0.1, x, 1), "mean_s"),
    (lambda x: queueing.mg1_wait_s(0.1, 1, x), "variance_s2"),
    (lambda x: queueing.mg1_wait_s(9, 1, x), "variance_s2"),
    (lambda x: queueing.mm1_wait_s(0.1, x), "mean_s"),
    (lambda x: queueing.md1_wait_s(x, 1), "rate_per_s"),
    (lambda x: queueing.mm1_time_percentile_s(0.1, x, 50), "mean_s"),
    (lambda x: queueing.erlang_c(x, 1, 2), "rate_per_s"),
    (lambda x: queueing.mmc_wait_s(0.1, x, 2), "mean_s"),
    (lambda x: queueing.mgc_wait_s(0.1, 1, x, 2), "variance_s2"),
    (lambda x: queueing.mgc_wait_s(0, 1, x, 2), "variance_s2"),
    (lambda x: queueing.closed_loop_bounds(1, x), "mean_s"),
    (lambda x: queueing.closed_loop_bounds(1, 1, x), "think_s"),
]


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("formula", "name"), BAD)
def test_what_is_negative_or_not_finite_is_refused(
    formula: Callable[[float], object], name: str, value: float
) -> None:
    with pytest.raises(LabError, match=f"^{name} is "):
        formula(value)


@pytest.mark.parametrize("number", [0, -1, 1.5, math.nan, math.inf])
def test_slots_and_clients_are_whole_numbers(number: float) -> None:
    """A caller's sliders may give any float."""
    formulas: list[Callable[[float], object]] = [
        lambda x: queueing.utilization(1, 1, x),  # type: ignore[arg-type]
        lambda x: queueing.erlang_c(0, 1, x),  # type: ignore[arg-type]
        lambda x: queueing.closed_loop_bounds(
            1,
            1,
            0,
            x,  # type: ignore[arg-type]
        ),
        lambda x: queueing.closed_loop_bounds(x, 1),  # type: ignore[arg-type]
    ]
    for formula in formulas:
        with pytest.raises(LabError, match="a whole number from 1"):
            formula(number)


@pytest.mark.parametrize("q", [-1, 100, 101, math.nan])
def test_percentiles_below_100(q: float) -> None:
    for formula in (
        lambda: queueing.mm1_wait_percentile_s(0.5, 1, q),
        lambda: queueing.mm1_wait_percentile_s(2, 1, q),
        lambda: queueing.mm1_time_percentile_s(0.5, 1, q),
    ):
        with pytest.raises(LabError, match="less than 100"):
            formula()


def test_a_loop_without_service_has_no_bound() -> None:
    with pytest.raises(LabError, match="service time"):
        queueing.closed_loop_bounds(3, 0.0, 0.0)


# What must hold of any numbers ----------------------------------------------

BUSY = st.floats(0.01, 0.99)
MEAN_S = st.floats(1e-4, 100)
VARIATION = st.floats(0, 10)
SLOTS = st.integers(1, 60)


@given(BUSY, MEAN_S, VARIATION)
def test_one_slot_is_the_case_of_several(
    busy: float, mean_s: float, variation: float
) -> None:
    rate, variance = busy / mean_s, (variation * mean_s) ** 2
    assert queueing.erlang_c(rate, mean_s, 1) == pytest.approx(busy)
    assert queueing.mmc_wait_s(rate, mean_s, 1) == pytest.approx(
        queueing.mm1_wait_s(rate, mean_s)
    )
    assert queueing.mgc_wait_s(rate, mean_s, variance, 1) == pytest.approx(
        queueing.mg1_wait_s(rate, mean_s, variance)
    )


@given(BUSY, MEAN_S, SLOTS, st.floats(0.5, 2))
def test_another_unit_of_time_changes_nothing(
    busy: float, mean_s: float, slots: int, unit: float
) -> None:
    rate = busy * slots / mean_s
    one = queueing.mgc_wait_s(rate, mean_s, mean_s**2 / 3, slots)
    other_s = mean_s * unit
    other = queueing.mgc_wait_s(rate / unit, other_s, other_s**2 / 3, slots)
    assert one is not None
    assert other == pytest.approx(one * unit)


@given(BUSY, SLOTS)
def test_more_load_waits_longer_and_more_slots_wait_less(
    busy: float, slots: int
) -> None:
    rate = busy * slots
    here, less = (queueing.mmc_wait_s(r, 1, slots) for r in (rate, rate / 2))
    more_slots = queueing.mmc_wait_s(rate, 1, slots + 1)
    assert here is not None
    assert less is not None
    assert more_slots is not None
    assert here > less
    assert here > more_slots
    probability = queueing.erlang_c(rate, 1, slots)
    assert probability is not None
    assert 0 < probability <= busy + 1e-12


@given(BUSY, SLOTS, st.floats(0, 99.9))
def test_a_percentile_has_that_share_beyond_it(
    busy: float, slots: int, q: float
) -> None:
    rate = busy * slots
    probability = queueing.erlang_c(rate, 1, slots)
    wait_s = queueing.mmc_wait_percentile_s(rate, 1, slots, q)
    assert probability is not None
    assert wait_s is not None
    beyond = probability * math.exp(-(slots - rate) * wait_s)
    assert beyond <= (100 - q) / 100 + 1e-9
    if wait_s:
        assert beyond == pytest.approx((100 - q) / 100)


# Against the simulation -----------------------------------------------------


def replicated(
    of: Callable[[Sequence[Visit]], float],
    busy: float,
    variation: float,
    slots: int = 1,
) -> stats.Interval:
    """Interval of `of` one run, from 24 independent ones after warm-up.

    Services last 1 s on average; 500 a slot go before what counts.
    """
    drawn = Random(f"{busy} {variation} {slots}")
    count = 4000 + 500 * slots
    values = []
    for _ in range(24):
        arrivals_s = poisson_arrivals(busy * slots, count, drawn)
        services_s = with_spread(1.0, variation, count, drawn)
        visits = simulate(arrivals_s, services_s, slots)
        values.append(of(visits[500 * slots :]))
    found = stats.mean_interval(values, CONFIDENCE)
    assert found is not None
    return found


def mean_wait_s(visits: Sequence[Visit]) -> float:
    return statistics.fmean(visit.wait_s for visit in visits)


def holds(interval: stats.Interval, value: float | None) -> bool:
    """Whether it holds the value, and is narrow enough to say something."""
    assert value is not None
    assert interval.high - interval.low < 0.45 * value
    return interval.low <= value <= interval.high


@pytest.mark.parametrize("variation", [0, 0.5, 1, 2])
@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_the_wait_at_one_slot(busy: float, variation: float) -> None:
    found = replicated(mean_wait_s, busy, variation)
    predicted = queueing.mg1_wait_s(busy, 1.0, variation**2)
    assert holds(found, predicted)
    assert not holds(found, 1.3 * (predicted or 0))


@pytest.mark.parametrize(("busy", "slots"), [(0.6, 2), (0.8, 2), (0.8, 4)])
def test_the_wait_at_several_slots(busy: float, slots: int) -> None:
    found = replicated(mean_wait_s, busy, 1, slots)
    assert holds(found, queueing.mmc_wait_s(busy * slots, 1.0, slots))

    def share(visits: Sequence[Visit]) -> float:
        return sum(visit.wait_s > 0 for visit in visits) / len(visits)

    found = replicated(share, busy, 1, slots)
    assert holds(found, queueing.erlang_c(busy * slots, 1.0, slots))


@pytest.mark.parametrize("variation", [0, 0.5, 1.5])
def test_the_approximation_for_several_slots_is_close(
    variation: float,
) -> None:
    """Within 10 % of the simulation at 80 % of 4 slots."""
    found = replicated(mean_wait_s, 0.8, variation, 4)
    predicted = queueing.mgc_wait_s(3.2, 1.0, variation**2, 4)
    assert predicted is not None
    assert 0.9 * found.low <= predicted <= 1.1 * found.high


def test_shares_beyond_a_percentile() -> None:
    """A tenth of all waits, and of all times, is beyond its p90."""
    wait_s = queueing.mm1_wait_percentile_s(0.6, 1.0, 90)
    time_s = queueing.mm1_time_percentile_s(0.6, 1.0, 90)
    two_s = queueing.mmc_wait_percentile_s(1.2, 1.0, 2, 90)
    assert wait_s is not None
    assert time_s is not None
    assert two_s is not None

    def beyond(limit_s: float, name: str) -> Callable[..., float]:
        return lambda visits: statistics.fmean(
            getattr(visit, name) > limit_s for visit in visits
        )

    assert holds(replicated(beyond(wait_s, "wait_s"), 0.6, 1), 0.1)
    assert holds(replicated(beyond(time_s, "time_s"), 0.6, 1), 0.1)
    assert holds(replicated(beyond(two_s, "wait_s"), 0.6, 1, 2), 0.1)


def closed_loop(
    clients: int, think_s: float, slots: int, variation: float
) -> tuple[float, float]:
    """Rate and mean time of a loop of 1 s services, over 4,000 requests."""
    drawn = Random(f"{clients} {think_s} {slots}")
    thinks_s = iter(with_spread(think_s, variation, 5000, drawn))
    services_s = iter(with_spread(1.0, variation, 5000, drawn))
    arriving = [(0.0, client) for client in range(clients)]
    free, times_s, ends_s = [0.0] * slots, [], []
    for _ in range(4000):
        arrival_s, client = heapq.heappop(arriving)
        end_s = max(arrival_s, free[0]) + next(services_s)
        heapq.heapreplace(free, end_s)
        times_s.append(end_s - arrival_s)
        ends_s.append(end_s)
        heapq.heappush(arriving, (end_s + next(thinks_s), client))
    return 4000 / max(ends_s), statistics.fmean(times_s)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("think_s", [0.0, 4.0])
@pytest.mark.parametrize("clients", [1, 2, 5, 30])
def test_no_closed_loop_beats_its_bounds(
    clients: int, think_s: float, slots: int
) -> None:
    bounds = queueing.closed_loop_bounds(clients, 1.0, think_s, slots)
    rate, time_s = closed_loop(clients, think_s, slots, 0)
    assert rate == pytest.approx(bounds.rate_per_s, rel=0.03)
    assert time_s == pytest.approx(bounds.time_s, rel=0.03)
    rate, time_s = closed_loop(clients, think_s, slots, 1)
    assert rate < 1.05 * bounds.rate_per_s
    assert time_s > 0.95 * bounds.time_s


@pytest.mark.parametrize("mean_s", [0.013, 0.049, 0.199])
@pytest.mark.parametrize("slots", [1, 3])
def test_full_is_full_however_it_is_rounded(mean_s: float, slots: int) -> None:
    rate = slots / mean_s
    assert queueing.mmc_wait_s(rate, mean_s, slots) is None
    if slots == 1:
        assert queueing.mg1_wait_s(rate, mean_s, mean_s**2) is None
