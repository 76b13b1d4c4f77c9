"""A machine whose times are known, and results made on it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest

from labkit import timing
from labkit.machine import Machine
from labkit.observations import Observation, Sample
from labkit.records import Record
from labkit.results import Model, Quantity, Result
from labkit.results import Protocol as Procedure

QUIET = Sample(
    cores=2,
    threads=2,
    load_average=0.5,
    all_s=0.0,
    busy_s=0.0,
    own_s=0.0,
    stolen_s=0.0,
)


class Silent:
    """Progress that keeps what it is told."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.labels: list[str] = []
        self.summary: str | None = None

    def advance(self, label: str) -> None:
        self.labels.append(label)

    def close(self, summary: str) -> None:
        self.summary = summary


@dataclass
class Scripted:
    """A clock that only work moves; `slow_after` calls it slows down."""

    now_ns: int = 5_000
    calls: list[str] = field(default_factory=list)
    slow_after: int | None = None
    factor: int = 3
    stop_at: int | None = None
    bars: list[Silent] = field(default_factory=list)

    def clock(self) -> int:
        return self.now_ns

    def work(
        self, name: str, costs_ms: Sequence[int], value: Any = None
    ) -> Callable[[], Any]:
        """A condition; its costs are used in turn, call by call."""

        def run() -> Any:
            if len(self.calls) + 1 == self.stop_at:
                self.stop_at = None
                raise KeyboardInterrupt
            cost = costs_ms[self.calls.count(name) % len(costs_ms)]
            self.calls.append(name)
            slow = self.slow_after is not None and (
                len(self.calls) > self.slow_after
            )
            self.now_ns += cost * 1_000_000 * (self.factor if slow else 1)
            return value

        return run

    def bar(self, total: int) -> Silent:
        self.bars.append(Silent(total))
        return self.bars[-1]

    def measure(
        self, conditions: Mapping[str, Callable[[], Any]], **options: Any
    ) -> timing.Trials[Any]:
        """`timing.measure` on this machine, which is otherwise quiet."""
        return timing.measure(
            conditions,
            clock=self.clock,
            sampler=options.pop("sampler", lambda: QUIET),
            progress=self.bar,
            **options,
        )


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def new_scripted() -> Callable[..., Scripted]:
    return Scripted


@pytest.fixture
def quiet() -> Sample:
    return QUIET


class MakeResult(Protocol):
    def __call__(self, number: int = 0, **changes: Any) -> Result: ...


CONDITIONS = {"128 in, 8 out": 1.2, "128 in, 64 out": 6.0}


def observe(seed: int, scale: float = 1.0) -> tuple[Observation, ...]:
    """Five rounds of both conditions, two per cent of noise."""
    source = random.Random(seed)
    runs = [(n, name) for n in range(1, 6) for name in CONDITIONS]
    return tuple(
        Observation(
            condition=name,
            repeat=n,
            position=place,
            seconds=CONDITIONS[name] * scale * source.uniform(0.98, 1.02),
            started_s=float(place),
            threads=2,
            load_before=0.5,
            load_after=0.6,
            elsewhere=0.01,
            stolen=0.0,
            value="0123abcd",
        )
        for place, (n, name) in enumerate(runs, start=1)
    )


def quantities_of(
    observations: Sequence[Observation],
) -> tuple[Quantity, ...]:
    seconds = {
        name: [s.seconds for s in observations if s.condition == name]
        for name in CONDITIONS
    }
    short, long = seconds.values()
    return (
        *(
            Quantity.median(f"generation_s ({name})", "s", values)
            for name, values in seconds.items()
        ),
        Quantity.ratio("time_ratio (8x output)", long, short, 4.0, 7.5),
        Quantity(Record("new_ids", [260, 3075], rule="exact")),
        Quantity(Record("logit", 12.5, rule="close", rtol=1e-4)),
        Quantity(Record("load_s", 0.9, "s")),
    )


@pytest.fixture
def make_result() -> MakeResult:
    """Results of one machine: the same run for the same number."""

    def make(number: int = 0, scale: float = 1.0, **changes: Any) -> Result:
        observations = observe(number, scale)
        made = Result(
            lesson="02",
            started_utc=f"2025-01-31T12:00:{number:02d}Z",
            machine=Machine("Test CPU", 2, 2**32, "Linux", "x86_64"),
            software={"python": "3.11.7", "torch": "2.13.0"},
            model=Model("tiny", "a package", "1", "ab" * 32, "float32"),
            protocol=Procedure(
                name="generation-sweeps",
                conditions=tuple(CONDITIONS),
                warmups=2,
                repeats=5,
                seed=0,
                order="interleaved",
                threads=2,
                prompt_sha256="cd" * 32,
            ),
            observations=observations,
            quantities=quantities_of(observations),
            predictions={"time_ratio (8x output)": 8.0},
        )
        return replace(made, **changes)

    return make
