"""What a load test is to do, decided before it starts.

The plan is written down first, so that whoever reads the evidence can see
that nothing was left out, added or asked differently. Standard library only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from labkit.errors import LabError
from labkit.loadtest.rates import Objectives
from labkit.loadtest.records import Request

Phase = Literal["warmup", "measured"]
Arrivals = Literal["constant", "poisson", "recorded"]
STALL_MS = 20.0
"""A client that was held up for longer is marked: tokens are no further
apart on a fast server."""
TIMEOUT_S = 300.0
LONGEST_S = 86_400.0
"""A day; no load test of this course lasts longer."""


@dataclass(frozen=True)
class Configuration:
    """One setting that requests are measured in.

    Either `clients` (a closed loop: each sends its next request when its
    last is over) or `arrivals` (an open loop: requests are due by a
    schedule, whatever became of earlier ones; at most `most_in_flight` at
    once). `threads` are those that the server computes with, None where
    that is not known.
    """

    name: str
    threads: int | None = None
    clients: int | None = None
    rate_per_s: float | None = None
    arrivals: Arrivals | None = None
    most_in_flight: int | None = None

    def __post_init__(self) -> None:
        if (self.clients is None) == (self.arrivals is None):
            raise LabError(
                f"{self.name}: ask either for clients (a closed loop) or for"
                " arrivals (an open loop)."
            )
        for name in ("threads", "clients", "rate_per_s", "most_in_flight"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e6:
                raise LabError(
                    f"{self.name}: {name} is {value}; it must be above 0 and"
                    " at most a million."
                )

    @property
    def burst(self) -> int:
        """How many requests a closed loop releases at once, if several."""
        return self.clients if self.clients and self.clients > 1 else 0


@dataclass(frozen=True)
class Planned:
    """One request of the plan; `offset_ns` is when an open loop wants it,
    counted from the configuration's first."""

    request: str
    configuration: str
    phase: Phase
    offset_ns: int | None
    new_tokens: int
    prompt_ids: tuple[int, ...]

    def to_send(self) -> Request:
        """What the client is to send."""
        return Request(self.request, self.new_tokens, self.prompt_ids)


@dataclass(frozen=True)
class Plan:
    """Configurations in the order they run, each with its requests.

    `prompts` says what the prompts are made of, `vocabulary` how many
    token ids there are. A warm-up comes before the measured requests of
    its configuration.
    """

    seed: int
    prompts: str
    vocabulary: int | None
    configurations: tuple[Configuration, ...]
    requests: tuple[Planned, ...]
    objectives: Objectives = field(default_factory=Objectives)
    timeout_s: float = TIMEOUT_S
    stall_ms: float = STALL_MS

    def __post_init__(self) -> None:
        self._check_sizes()
        refuse_doubles([each.name for each in self.configurations])
        refuse_doubles([each.request for each in self.requests])
        if not any(each.phase == "measured" for each in self.requests):
            raise LabError("Nothing to measure: ask for at least one request.")
        warmups, measured = (
            {each.prompt_ids for each in self.requests if each.phase == phase}
            for phase in ("warmup", "measured")
        )
        if warmups & measured:
            raise LabError(
                "A prompt is in the warm-up and in the measured part, so that"
                " a server may remember it: choose others."
            )

    def _check_sizes(self) -> None:
        """LabError for sizes with which nothing can be measured."""
        if not 0 < self.timeout_s <= LONGEST_S:
            raise LabError(
                f"A time-out of {self.timeout_s} s is none: give seconds"
                f" above 0, and at most {LONGEST_S:g}."
            )
        if any(each.new_tokens < 1 for each in self.requests):
            raise LabError("Ask for at least one new token.")
        bound = math.inf if self.vocabulary is None else self.vocabulary
        if bound < 1:
            raise LabError(
                f"A vocabulary of {bound} has no token: give its size."
            )
        ids = {i for each in self.requests for i in each.prompt_ids}
        if ids and not 0 <= min(ids) <= max(ids) < bound:
            raise LabError(
                f"A prompt has an id outside the vocabulary of {bound}: give"
                " the size that the server has, or take random prompts."
            )

    def of(self, configuration: str, phase: Phase) -> list[Planned]:
        """The requests of one phase of a configuration, in their order."""
        return [
            each
            for each in self.requests
            if (each.configuration, each.phase) == (configuration, phase)
        ]


def number(  # noqa: PLR0913 - each is a field of what is planned
    configuration: str,
    phase: Phase,
    prompts: Sequence[tuple[int, ...]],
    new_tokens: int,
    first: int = 0,
    *,
    offsets_ns: Sequence[int] | None = None,
) -> list[Planned]:
    """Requests for some prompts, named w000, w001, ... or m000, m001, ..."""
    return [
        Planned(
            f"{phase[0]}{first + place:03}",
            configuration,
            phase,
            None if offsets_ns is None else offsets_ns[place],
            new_tokens,
            prompt,
        )
        for place, prompt in enumerate(prompts)
    ]


def refuse_doubles(names: Sequence[str]) -> None:
    """LabError for a name that two requests, or configurations, have."""
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise LabError(f"{twice!r} is planned twice: names must differ.")
