"""When to try again, on a clock that only the test moves."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.loadtest import drive, metrics
from labkit.loadtest.records import Arrival, Record, Request
from labkit.loadtest.retries import (
    AT_ONCE,
    WORTH_ANOTHER_TRY,
    Backoff,
    Budget,
    Policy,
    Retrying,
)

REQUEST = Request("m000", 1, text="Hi")
S = 1_000_000_000


class World:
    """A clock, and a server that fails as it is told.

    Each try takes a second; `outcomes` has a failure or None for each.
    """

    def __init__(self, *outcomes: str | None) -> None:
        self.now = 100 * S
        self.slept: list[float] = []
        self._outcomes = list(outcomes)

    def clock(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += round(seconds * S)

    def send(
        self,
        request: Request,
        *,
        due_ns: int | None = None,
        on_sent: Callable[[str, int], object] | None = None,
        on_arrival: Callable[[str, Arrival], object] | None = None,
    ) -> Record:
        sent = self.now
        if on_sent:
            on_sent(request.name, sent)
        self.now += S
        failure = self._outcomes.pop(0)
        if failure is not None:
            return Record(
                request.name, sent, self.now, due_ns, None, (), 200, failure
            )
        token = Arrival(self.now, "token", (1,), 1)
        return Record(
            request.name,
            sent,
            self.now,
            due_ns,
            None,
            (token,),
            200,
            new_tokens=1,
        )


def through(world: World, policy: Policy) -> tuple[Record, Retrying]:
    sender = Retrying(world, policy, sleep=world.sleep, clock=world.clock)
    return sender.send(REQUEST, due_ns=world.now), sender


def test_it_tries_until_it_succeeds() -> None:
    world = World("timeout", "http_429", None, None)
    backoff = Backoff(1, factor=2, jitter=0)
    found, sender = through(world, Policy(4, backoff))
    assert found.ok
    assert world.slept == [1, 2]
    assert [each.failure for each in sender.tries] == [
        *("timeout", "http_429", None)
    ]
    # three tries of a second, and waits of one and two seconds
    assert metrics.ttft_from_schedule_ms(found) == 6000
    assert metrics.ttft_ms(found) == 1000


def test_at_most_so_many_tries() -> None:
    world = World(*["timeout"] * 9)
    found, sender = through(world, Policy(3))
    assert found.failure == "timeout"
    assert len(sender.tries) == 3
    assert world.slept == [0, 0]  # and none after the last


@pytest.mark.parametrize("failure", ["http_400", "malformed", "no_token"])
def test_what_will_fail_again_is_not_tried(failure: str) -> None:
    world = World(failure, None)
    found, sender = through(world, Policy(3))
    assert failure not in WORTH_ANOTHER_TRY
    assert found.failure == failure
    assert len(sender.tries) == 1


def test_it_gives_up_when_an_answer_would_be_too_late() -> None:
    world = World(*["timeout"] * 9)
    policy = Policy(9, Backoff(2, factor=1, jitter=0), give_up_s=6)
    _, sender = through(world, policy)
    # sent at 0 and 3; one sent at 6 would be too late
    assert len(sender.tries) == 2
    assert world.slept == [2]


def test_what_is_given_up_costs_no_budget() -> None:
    budget = Budget(share=0, most=5)
    world = World(*["timeout"] * 9)
    through(world, Policy(9, Backoff(9, jitter=0), budget, give_up_s=6))
    assert budget.tokens == 5


def test_the_caller_is_told_of_every_try() -> None:
    world = World("timeout", None)
    sender = Retrying(world, Policy(), sleep=world.sleep, clock=world.clock)
    told: list[Any] = []
    sender.send(REQUEST, on_sent=lambda *seen: told.append(seen))
    assert told == [("m000", 100 * S), ("m000", 101 * S)]


def test_it_is_a_client_for_a_loop() -> None:
    world = World("connection", None)
    sender = Retrying(world, Policy(), sleep=world.sleep)
    (found,) = drive.open_loop(sender, [REQUEST], [0])
    assert found.ok
    assert found.due_ns is not None


# Backoff --------------------------------------------------------------------


def test_a_backoff_doubles_up_to_its_most() -> None:
    backoff = Backoff(0.1, factor=2, most_s=1, jitter=0)
    drawn = random.Random(0)
    waits = [backoff.wait_s(n, drawn) for n in range(6)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])
    assert backoff.wait_s(10_000, drawn) == 1


@pytest.mark.parametrize("jitter", [0.5, 1.0])
def test_jitter_takes_a_random_part_away(jitter: float) -> None:
    backoff = Backoff(1.0, factor=1, jitter=jitter)
    drawn = random.Random(0)
    waits = [backoff.wait_s(0, drawn) for _ in range(2000)]
    assert min(waits) >= 1 - jitter
    assert max(waits) <= 1
    assert min(waits) < 1 - jitter + 0.01
    assert max(waits) > 0.99
    assert sum(waits) / 2000 == pytest.approx(1 - jitter / 2, abs=0.02)


def test_the_same_seed_waits_the_same() -> None:
    policy = Policy(4, Backoff(1.0))
    slept = []
    for _ in range(2):
        world = World(*["timeout"] * 4)
        through(world, policy)
        slept.append(world.slept)
    assert slept[0] == slept[1]
    assert len(set(slept[0])) == 3


def test_at_once_is_at_once() -> None:
    assert AT_ONCE.wait_s(3, random.Random(0)) == 0


@pytest.mark.parametrize(
    "values", [{"base_s": -1}, {"factor": 0.5}, {"jitter": 1.5}]
)
def test_bad_backoff(values: dict[str, float]) -> None:
    with pytest.raises(LabError):
        Backoff(**values)


# Budget ---------------------------------------------------------------------


def test_a_budget_bounds_retries_to_a_share() -> None:
    budget = Budget(share=0.1, most=3)
    world = World(*["timeout"] * 10_000)
    sender = Retrying(
        world,
        Policy(4, budget=budget),
        sleep=world.sleep,
        clock=world.clock,
    )
    for _ in range(1000):
        sender.send(REQUEST)
    retries = len(sender.tries) - 1000
    # what it begins with, and a tenth of a thousand
    assert 100 <= retries <= 103


def test_a_budget_saves_no_more_than_its_most() -> None:
    budget = Budget(share=0.5, most=2)
    for _ in range(100):
        budget.earn()
    assert [budget.spend() for _ in range(4)] == [True, True, False, False]
    budget.earn()
    assert not budget.spend()
    budget.earn()
    assert budget.spend()


def test_ten_tenths_are_one() -> None:
    budget = Budget(share=0.1, most=1)
    assert budget.spend()
    for _ in range(10):
        budget.earn()
    assert budget.spend()


def test_a_first_try_needs_no_budget() -> None:
    world = World(None)
    found, _ = through(world, Policy(2, budget=Budget(0, 0)))
    assert found.ok


def test_threads_share_a_budget() -> None:
    budget = Budget(share=0, most=500)
    spent: list[bool] = []

    def take() -> None:
        spent.extend([budget.spend() for _ in range(200)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(spent) == 500


def test_bad_terms() -> None:
    with pytest.raises(LabError):
        Budget(share=-0.1)
    with pytest.raises(LabError):
        Policy(most_tries=0)
