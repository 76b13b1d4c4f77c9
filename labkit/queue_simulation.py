"""One waiting line, first come first served, simulated request by request.

For what no formula covers, or no laptop can measure in minutes. Seconds;
standard library only; the random source is given, so that a seed gives the
same run again.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from labkit.errors import LabError

MOST_VARIATION = 100.0
LEAST_VARIATION = 1e-6
"""Below it a second varies by less than a microsecond: it is constant."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request's way through the system."""

    arrival_s: float
    start_s: float
    """When a slot was free for it."""
    end_s: float

    @property
    def wait_s(self) -> float:
        """Arrival to start."""
        return self.start_s - self.arrival_s

    @property
    def time_s(self) -> float:
        """Arrival to end: wait and service."""
        return self.end_s - self.arrival_s


def simulate(
    arrivals_s: Sequence[float], services_s: Sequence[float], slots: int = 1
) -> list[Visit]:
    """The visits, in order of arrival; the system is empty at first.

    The n-th arrival needs the n-th service time. A request takes the first
    slot that is free, those who came before it first. LabError unless there
    are as many services as arrivals, arrivals do not fall, services are not
    negative, all are finite, and there is a slot.
    """
    _require(arrivals_s, services_s, slots)
    free = [-math.inf] * int(slots)
    visits = []
    for arrival_s, service_s in zip(arrivals_s, services_s, strict=True):
        start_s = max(arrival_s, free[0])
        heapq.heapreplace(free, start_s + service_s)
        visits.append(Visit(arrival_s, start_s, start_s + service_s))
    return visits


def poisson_arrivals(
    rate_per_s: float, count: int, random: Random
) -> list[float]:
    """`count` moments of a Poisson process that starts at 0.

    Independent exponential gaps of mean 1 / rate, the first before the
    first arrival.
    """
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise LabError(
            f"The rate is {rate_per_s}: give a finite number above 0."
        )
    moment_s, arrivals_s = 0.0, []
    for _ in range(_counted(count)):
        moment_s += random.expovariate(rate_per_s)
        arrivals_s.append(moment_s)
    return arrivals_s


def with_spread(
    mean_s: float, variation: float, count: int, random: Random
) -> list[float]:
    """Independent service times of a mean and a coefficient of variation.

    `variation` is standard deviation / mean: 0 is constant, 1 exponential,
    more has a longer tail. The distribution is gamma's, of shape
    1 / variation².
    """
    if not (math.isfinite(mean_s) and mean_s >= 0):
        raise LabError(
            f"The mean is {mean_s}: give a finite number of seconds, not"
            " negative."
        )
    if not 0 <= variation <= MOST_VARIATION:
        raise LabError(
            f"The variation is {variation}: give 0 (constant) to"
            f" {MOST_VARIATION:g}."
        )
    if not mean_s or variation < LEAST_VARIATION:
        return [mean_s] * _counted(count)
    shape = 1 / variation**2
    return [
        mean_s * random.gammavariate(shape, 1 / shape)
        for _ in range(_counted(count))
    ]


def _require(
    arrivals_s: Sequence[float], services_s: Sequence[float], slots: int
) -> None:
    if len(arrivals_s) != len(services_s):
        raise LabError(
            f"There are {len(arrivals_s)} arrivals and {len(services_s)}"
            " service times: give one for each."
        )
    if not all(map(math.isfinite, (*arrivals_s, *services_s))):
        raise LabError("A time is not finite: leave undefined ones out.")
    if any(later < earlier for earlier, later in pairwise(arrivals_s)):
        raise LabError("The arrivals are not in order of time: sort them.")
    if any(service_s < 0 for service_s in services_s):
        raise LabError("A service time is negative: measure it again.")
    if slots < 1 or slots % 1:
        raise LabError(f"slots is {slots}: give a whole number from 1.")


def _counted(count: int) -> int:
    if count < 0 or count % 1:
        raise LabError(f"The count is {count}: give a whole number from 0.")
    return int(count)
