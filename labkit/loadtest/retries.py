"""What a client does when a request failed: how often, when, how many.

Each piece is a policy without a clock. `Retrying` stands around a client and
is a client itself, for `drive`. It is none for evidence, where each request is
sent once. Standard library only.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from labkit.errors import LabError
from labkit.loadtest.loops import Sender
from labkit.loadtest.records import Arrival, Record, Request

WORTH_ANOTHER_TRY = frozenset(
    {
        *("timeout", "connection", "no_terminal_event", "error_event"),
        *("http_429", "http_500", "http_502", "http_503", "http_504"),
    }
)
"""Failures that another try may not meet. A malformed request stays one."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a retry, in seconds.

    Before the n-th (from 0) it is base x factor^n, at most `most_s`, of
    which the share `jitter` is drawn at random: 0 waits just so long, 1
    anything from nothing to that ("full jitter": M. Brooker, "Exponential
    Backoff And Jitter", AWS Architecture Blog, 2015).
    """

    base_s: float = 0.1
    factor: float = 2.0
    most_s: float = 10.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if min(self.base_s, self.most_s) < 0 or self.factor < 1:
            raise LabError(
                "A backoff has times of 0 or more and a factor of 1 or more."
            )
        if not 0 <= self.jitter <= 1:
            raise LabError(f"Jitter is a share, not {self.jitter:g}.")

    def wait_s(self, number: int, drawn: random.Random) -> float:
        """Before the n-th retry, from 0."""
        # A power that large is no float; the wait is at its most long before.
        grown = self.factor ** min(number, 64)
        whole = min(self.most_s, self.base_s * grown)
        return whole * (1 - self.jitter * drawn.random())


AT_ONCE = Backoff(0.0, 1.0, 0.0, 0.0)
"""No wait at all."""


class Budget:
    """A bound on retries that many requests share.

    Every first try puts `share` of a token in, every retry takes a whole
    one out, and without one there is no retry. So in the long run there are
    at most `share` retries for each request, however many fail. It holds at
    most `most` tokens, and begins full: so many may fail at the start.
    Threads may share it.
    """

    def __init__(self, share: float = 0.1, most: float = 10.0) -> None:
        if share < 0 or most < 0:
            raise LabError("A budget has a share and a most of 0 or more.")
        self._share = share
        self._most = most
        self._tokens = most
        self._lock = threading.Lock()

    @property
    def tokens(self) -> float:
        """What is left."""
        return self._tokens

    def earn(self) -> None:
        """A first try was made."""
        with self._lock:
            self._tokens = min(self._most, self._tokens + self._share)

    def spend(self) -> bool:
        """Take a token for a retry; False when there is none."""
        with self._lock:
            # 0.1 ten times over is a little under 1 in floating point.
            if self._tokens < 1 - 1e-9:
                return False
            self._tokens = max(0.0, self._tokens - 1)
            return True


@dataclass(frozen=True)
class Policy:
    """When to try again: at most `most_tries` in all.

    `give_up_s` after it was first sent, a request is not tried again: an
    answer would be worth nothing by then. A budget is shared by everybody
    who has this policy.
    """

    most_tries: int = 3
    backoff: Backoff = AT_ONCE
    budget: Budget | None = None
    give_up_s: float | None = None

    def __post_init__(self) -> None:
        if self.most_tries < 1:
            raise LabError("Without a first try nothing is sent.")


class Retrying:
    """A client that tries again; it has the `send` of `client.Client`.

    `tries` has the record of every try, in the order of their ends. `send`
    returns that of the last, so that TTFT from schedule counts from when
    the request was due, through all tries and waits; `sent_ns` is that of
    the last try. Any number of threads may send. `sleep` takes seconds,
    `clock` gives ns.
    """

    def __init__(
        self,
        sender: Sender,
        policy: Policy,
        *,
        seed: int = 0,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._sender = sender
        self._policy = policy
        self._drawn = random.Random(seed)  # noqa: S311 - no secret
        self._sleep = sleep
        self._clock = clock
        self.tries: list[Record] = []

    def send(
        self,
        request: Request,
        *,
        due_ns: int | None = None,
        on_sent: Callable[[str, int], object] | None = None,
        on_arrival: Callable[[str, Arrival], object] | None = None,
    ) -> Record:
        """Send it until it succeeds or the policy says no; see Client."""
        policy, first_ns = self._policy, self._clock()
        if policy.budget is not None:
            policy.budget.earn()
        for number in range(policy.most_tries):
            record = self._sender.send(
                request, due_ns=due_ns, on_sent=on_sent, on_arrival=on_arrival
            )
            self.tries.append(record)
            if record.failure not in WORTH_ANOTHER_TRY:
                break
            wait_s = policy.backoff.wait_s(number, self._drawn)
            if not self._again(number + 1, first_ns, wait_s):
                break
            self._sleep(wait_s)
        return record

    def _again(self, done: int, first_ns: int, wait_s: float) -> bool:
        """Whether one more try is allowed; takes it from the budget."""
        policy = self._policy
        if done >= policy.most_tries:
            return False
        spent_s = (self._clock() - first_ns) / 1e9
        if policy.give_up_s is not None and (
            spent_s + wait_s >= policy.give_up_s
        ):
            return False
        return policy.budget is None or policy.budget.spend()
