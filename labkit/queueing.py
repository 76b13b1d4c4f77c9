"""What queueing theory says of a waiting line, before it is measured.

Every formula is about the long run: a server that works forever, or a window
that starts and ends empty. Seconds and requests per second. `rate_per_s` is
how many requests arrive, `mean_s` and `variance_s2` are of the service time
(what a request holds a slot for, its wait left out), `slots` is how many are
served at once.

In names like M/G/1 the first letter is the arrivals (M: a Poisson process),
the second the service times (M: exponential, D: constant, G: any), the
number the slots. A wait is None where there is none in the long run: at or
over capacity the line grows for as long as requests come. Pure functions;
standard library only; LabError for a negative number or one that is not
finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labkit.errors import LabError

FULL = 1 - 1e-9
"""A load from here on is one: (1 / mean) x mean may round to a little less."""


@dataclass(frozen=True)
class Bounds:
    """What a closed loop cannot beat."""

    rate_per_s: float
    """At most so many requests a second."""
    time_s: float
    """At least so long in the system, wait and service, on average."""


def utilization(rate_per_s: float, mean_s: float, slots: int = 1) -> float:
    """Mean share of the slots that is busy; from 1 on, no steady state.

    The utilization law, rate x mean / slots. It takes nothing for granted
    but that all who come are served, each once. P. J. Denning, J. P. Buzen,
    "The Operational Analysis of Queueing Network Models", ACM Computing
    Surveys 10 (1978).
    """
    _require(rate_per_s=rate_per_s, mean_s=mean_s)
    return rate_per_s * mean_s / _whole("slots", slots)


def in_system(rate_per_s: float, time_s: float) -> float:
    """Mean number of requests in a system in which each spends `time_s`.

    Little's law, L = rate x time. It holds for any arrivals, services and
    order, in the long run or in a window that starts and ends empty; with
    the wait in place of the time it gives the number who wait.
    J. D. C. Little, "A Proof for the Queuing Formula L = λW", Operations
    Research 9 (1961).
    """
    _require(rate_per_s=rate_per_s, time_s=time_s)
    return rate_per_s * time_s


# One slot -------------------------------------------------------------------


def mg1_wait_s(
    rate_per_s: float, mean_s: float, variance_s2: float
) -> float | None:
    """Mean wait before service, M/G/1 (Pollaczek and Khinchine).

    rate x (mean² + variance) / (2 (1 - utilization)). Poisson arrivals, one
    slot; service times of any distribution, independent of each other and
    of the arrivals; nobody leaves the line. Any order that does not look at
    the service times gives this mean. L. Kleinrock, "Queueing Systems",
    volume 1 (1975), chapter 5.
    """
    busy = utilization(rate_per_s, mean_s)
    _require(variance_s2=variance_s2)
    if busy >= FULL:
        return None
    return (busy * mean_s + rate_per_s * variance_s2) / (2 * (1 - busy))


def erlang_b(load: float) -> float:
    """Share refused by one slot without a line; `load` is rate x mean.

    load / (1 + load): Poisson arrivals, service times of any distribution
    (A. K. Erlang 1917; for one slot it follows from counting one cycle of
    idle, busy, idle).
    """
    _require(load=load)
    return load / (1 + load)


def mm1_wait_s(rate_per_s: float, mean_s: float) -> float | None:
    """Mean wait, M/M/1: M/G/1 with exponential service times.

    utilization x mean / (1 - utilization).
    """
    _require(mean_s=mean_s)
    return mg1_wait_s(rate_per_s, mean_s, mean_s * mean_s)


def md1_wait_s(rate_per_s: float, mean_s: float) -> float | None:
    """Mean wait, M/D/1: M/G/1 with constant service times.

    Half of what M/M/1 has at the same rate and mean.
    """
    return mg1_wait_s(rate_per_s, mean_s, 0.0)


def mm1_wait_percentile_s(
    rate_per_s: float, mean_s: float, q: float
) -> float | None:
    """The wait that `q` per cent of requests do not exceed, M/M/1.

    First come first served. See `mmc_wait_percentile_s`.
    """
    return mmc_wait_percentile_s(rate_per_s, mean_s, 1, q)


def mm1_time_percentile_s(
    rate_per_s: float, mean_s: float, q: float
) -> float | None:
    """The time in system that `q` per cent do not exceed, M/M/1.

    First come first served: wait and service together are exponential, of
    mean mean / (1 - utilization). D. Gross and others, "Fundamentals of
    Queueing Theory", 4th edition (2008), chapter 2.
    """
    busy = utilization(rate_per_s, mean_s)
    beyond = _beyond(q)
    if busy >= FULL:
        return None
    return mean_s / (1 - busy) * -math.log(beyond)


# Several slots --------------------------------------------------------------


def erlang_c(rate_per_s: float, mean_s: float, slots: int) -> float | None:
    """Probability that a request has to wait, M/M/c (Erlang's C formula).

    Poisson arrivals, exponential service times, one line for all slots,
    nobody leaves it. It is computed from Erlang's B formula (the share that
    a system without a line refuses) by the recursion over slots, which
    needs no factorials. Both: Kleinrock (1975), chapter 3.
    """
    busy = utilization(rate_per_s, mean_s, slots)
    if busy >= FULL:
        return None
    offered = rate_per_s * mean_s
    refused = 1.0
    for slot in range(1, int(slots) + 1):
        refused = offered * refused / (slot + offered * refused)
    return refused / (1 - busy * (1 - refused))


def mmc_wait_s(rate_per_s: float, mean_s: float, slots: int) -> float | None:
    """Mean wait, M/M/c: the assumptions of `erlang_c`.

    P(wait) x mean / (slots - rate x mean), over all, who did not wait
    counted as 0.
    """
    waits = erlang_c(rate_per_s, mean_s, slots)
    if waits is None:
        return None
    return waits * mean_s / (slots - rate_per_s * mean_s)


def mgc_wait_s(
    rate_per_s: float, mean_s: float, variance_s2: float, slots: int
) -> float | None:
    """Mean wait, M/G/c: an approximation, for no exact formula is known.

    M/M/c's wait x (1 + variance / mean²) / 2. With one slot, or with
    exponential service times, it is exact; with several slots and others it
    is off by a few per cent where the line is busy, and by more where few
    wait or the service times vary much. A. M. Lee, P. A. Longton, "Queueing
    Processes Associated with Airline Passenger Check-in", Operational
    Research Quarterly 10 (1959).
    """
    wait_s = mmc_wait_s(rate_per_s, mean_s, slots)
    _require(variance_s2=variance_s2)
    if not wait_s:
        return wait_s
    return wait_s * (1 + variance_s2 / mean_s / mean_s) / 2


def mmc_wait_percentile_s(
    rate_per_s: float, mean_s: float, slots: int, q: float
) -> float | None:
    """The wait that `q` per cent of requests do not exceed, M/M/c.

    P(wait > t) = P(wait) x exp(-(slots - rate x mean) t / mean), first come
    first served; 0 as long as no more than 100 - q per cent wait at all.
    `q` is at least 0 and less than 100. Gross and others (2008), chapter 2.
    """
    waits, beyond = erlang_c(rate_per_s, mean_s, slots), _beyond(q)
    if waits is None:
        return None
    if waits <= beyond:
        return 0.0
    scale_s = mean_s / (slots - rate_per_s * mean_s)
    return scale_s * math.log(waits / beyond)


# A closed loop --------------------------------------------------------------


def closed_loop_bounds(
    clients: int, mean_s: float, think_s: float = 0.0, slots: int = 1
) -> Bounds:
    """What `clients` reach at most, each with one request at a time.

    Between an answer and its next request a client pauses `think_s` on
    average. The rate is at most slots / mean, and at most clients / (mean +
    think); the time is at least mean, and at least clients x mean / slots -
    think. The two lines of each cross at slots x (mean + think) / mean
    clients: more of them only wait. Nothing is assumed of distributions; no
    time is made shorter by company. Asymptotic bounds of Denning and Buzen
    (1978).
    """
    _require(mean_s=mean_s, think_s=think_s)
    if not mean_s:
        raise LabError("A loop needs a service time: give mean_s above 0.")
    clients, slots = _whole("clients", clients), _whole("slots", slots)
    return Bounds(
        rate_per_s=min(slots / mean_s, clients / (mean_s + think_s)),
        time_s=max(mean_s, clients * mean_s / slots - think_s),
    )


def _require(**numbers: float) -> None:
    for name, number in numbers.items():
        if not (math.isfinite(number) and number >= 0):
            raise LabError(
                f"{name} is {number}: give a finite number, 0 or more."
            )


def _whole(name: str, number: int) -> int:
    # Of an infinity or a NaN the remainder is NaN, which counts as true.
    if number < 1 or number % 1:
        raise LabError(f"{name} is {number}: give a whole number from 1.")
    return int(number)


def _beyond(q: float) -> float:
    if not 0 <= q < 100:
        raise LabError(f"q is {q}: give a percentile from 0 to less than 100.")
    return (100 - q) / 100
