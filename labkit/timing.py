"""Fair timing: warm up, interleave, repeat, and keep every observation.

A machine is not the same from one minute to the next. Measured block by
block, condition A gets the fast minutes and condition B the slow ones, and
the difference looks like one between A and B. `measure` therefore runs in
rounds: each round runs every condition once, in a shuffled order, so that
all of them meet the same minutes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from labkit import stats
from labkit.errors import LabError
from labkit.observations import (
    Noise,
    Observation,
    Sample,
    elsewhere,
    noise_of,
    sample,
    stolen,
)
from labkit.progress import Progress, bar

T = TypeVar("T")
Order = Literal["interleaved", "blocked"]


@dataclass(frozen=True)
class Run:
    """One place in the order; repeats, and warm-ups, count from 1."""

    condition: str
    repeat: int
    warmup: bool = False


@dataclass(frozen=True)
class Schedule:
    """Which runs are made, and in which order.

    `interleaved`: each repeat is a round of all conditions, shuffled anew.
    A shuffle of all runs together could by chance put most runs of one
    condition at the start; rounds cannot. `blocked`: all repeats of one
    condition, then of the next, to show what that does.
    """

    conditions: tuple[str, ...]
    repeats: int
    warmups: int
    seed: int
    order: Order

    def __post_init__(self) -> None:
        if not self.conditions:
            raise LabError("Nothing to measure: give at least one condition.")
        if self.repeats < 1 or self.warmups < 0:
            raise LabError(
                f"{self.repeats} repeats and {self.warmups} warm-ups cannot"
                " be run: ask for at least 1 and 0."
            )
        if self.order not in ("interleaved", "blocked"):
            raise LabError(
                f"There is no order {self.order!r}: choose interleaved or"
                " blocked."
            )

    def warmup_runs(self) -> list[Run]:
        """All warm-ups, condition by condition, before anything counts."""
        return [
            Run(name, n, warmup=True)
            for name in self.conditions
            for n in range(1, self.warmups + 1)
        ]

    def measured_runs(self) -> list[Run]:
        """The runs that count; the same for the same seed everywhere."""
        repeats = range(1, self.repeats + 1)
        if self.order == "blocked":
            return [Run(name, n) for name in self.conditions for n in repeats]
        # No secret: a seed is there to give the same order again.
        shuffler = random.Random(self.seed)  # noqa: S311
        runs = []
        for n in repeats:
            names = list(self.conditions)
            shuffler.shuffle(names)
            runs += [Run(name, n) for name in names]
        return runs


@dataclass(frozen=True)
class Trials(Generic[T]):
    """Every observation of a session, in the order it was made."""

    schedule: Schedule
    cores: int
    origin_ns: int
    """What the clock said when the session began."""
    warmups: tuple[Observation, ...] = ()
    observations: tuple[Observation, ...] = ()
    latest: Mapping[str, T] = field(default_factory=dict)
    """The last value of each condition, which the next is checked with."""

    @property
    def complete(self) -> bool:
        """Whether every run that was planned was made."""
        return len(self.observations) == len(self.schedule.measured_runs())

    @property
    def sequence(self) -> tuple[str, ...]:
        """The conditions of the measured runs, in the order they ran."""
        return tuple(seen.condition for seen in self.observations)

    def seconds(self, condition: str) -> list[float]:
        """Seconds of each measured run of a condition, by repeat."""
        if condition not in self.schedule.conditions:
            known = ", ".join(self.schedule.conditions)
            raise LabError(f"{condition!r} is none of: {known}.")
        found = [s for s in self.observations if s.condition == condition]
        return [seen.seconds for seen in found]

    def median(self, condition: str) -> float:
        """Median seconds of a condition; LabError before its first run."""
        return stats.median(self.seconds(condition))

    def paired_ratio(self, numerator: str, denominator: str) -> float:
        """Median, over the rounds, of the ratio within a round.

        Two runs of one round met nearly the same machine. One that slows
        at any moment spoils at most the round it falls into, where the
        ratio of medians may compare fast runs with slow ones.
        """
        above, below = self.seconds(numerator), self.seconds(denominator)
        pairs = zip(above, below, strict=False)  # the last may be cut short
        return stats.median([a / b for a, b in pairs if b > 0])

    def noise(self) -> Noise:
        """Whether the medians are fit to quote, and every reason why not."""
        found = noise_of(self.observations, self.cores)
        if self.complete:
            return found
        planned = len(self.schedule.measured_runs())
        reason = f"{len(self.observations)} of {planned} runs were made"
        return Noise(True, (reason, *found.reasons))


class DisagreementError(LabError):
    """A condition did not do the same work again; `trials` has the rest."""

    def __init__(self, message: str, trials: Trials[Any]) -> None:
        super().__init__(message)
        self.trials = trials


def measure(  # noqa: PLR0913 - each is one choice, given by name
    conditions: Mapping[str, Callable[[], T]],
    *,
    repeats: int,
    warmups: int,
    seed: int = 0,
    order: Order = "interleaved",
    check: Callable[[str, T, T], bool] | None = None,
    digest: Callable[[T], object] | None = None,
    resume: Trials[T] | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
    sampler: Callable[[], Sample] = sample,
    progress: Callable[[int], Progress] = bar,
) -> Trials[T]:
    """Time every condition `repeats` times, after `warmups` uncounted runs.

    A condition is a name and a function of no arguments; the clock
    (nanoseconds) covers the call and nothing else. `check` gets the
    condition, its previous value and its new one, and says whether they
    agree (`identical`); LabError where they do not. Each observation keeps
    the value, or `digest` of it.

    Interrupted (KeyboardInterrupt), it returns what there is, without the
    run that was cut off; `resume` takes those trials and goes on with the
    rest of the same order. `progress` makes, from the number of runs, the
    bar that is told about them.
    """
    schedule = Schedule(tuple(conditions), repeats, warmups, seed, order)
    session = _Session(
        conditions,
        _begin(schedule, resume, sampler, clock),
        check or (lambda name, previous, new: True),
        digest or (lambda value: value),
        clock,
        sampler,
    )
    rest = session.rest()
    shown = progress(len(rest))
    try:
        for run in rest:
            session.make(run)
            shown.advance(run.condition)
    except KeyboardInterrupt:
        pass  # what was made so far is kept
    except LabError as error:
        shown.close("")
        raise DisagreementError(str(error), session.trials()) from error
    except BaseException:
        shown.close("")
        raise
    trials = session.trials()
    shown.close(summary(trials))
    return trials


def identical(condition: str, previous: object, new: object) -> bool:
    """A `check` for runs that must return equal values each time."""
    return bool(previous == new)


def summary(trials: Trials[Any]) -> str:
    """One line: what was run, how long it took, whether to trust it."""
    schedule, made = trials.schedule, len(trials.observations)
    if not trials.complete:
        return (
            f"Stopped after {made} of {len(schedule.measured_runs())} runs:"
            " measure again with resume= these trials for the rest."
        )
    total = sum(s.seconds for s in (*trials.warmups, *trials.observations))
    noise = trials.noise()
    verdict = (
        "Too noisy to quote: " + "; ".join(noise.reasons)
        if noise.flagged
        else "The spread is small enough to quote the medians"
    )
    return (
        f"{made} runs ({schedule.repeats} of each condition) after"
        f" {len(trials.warmups)} warm-ups, {total:.1f} s in all."
        f" {verdict}."
    )


@dataclass
class _Session(Generic[T]):
    """Makes the runs of one session and keeps what they gave."""

    conditions: Mapping[str, Callable[[], T]]
    begun: Trials[T]
    check: Callable[[str, T, T], bool]
    digest: Callable[[T], object]
    clock: Callable[[], int]
    sampler: Callable[[], Sample]

    def __post_init__(self) -> None:
        self.warmups = list(self.begun.warmups)
        self.measured = list(self.begun.observations)
        self.latest = dict(self.begun.latest)

    def rest(self) -> list[Run]:
        """The runs that are still to be made."""
        schedule = self.begun.schedule
        return [
            *schedule.warmup_runs()[len(self.warmups) :],
            *schedule.measured_runs()[len(self.measured) :],
        ]

    def trials(self) -> Trials[T]:
        """What there is so far."""
        return replace(
            self.begun,
            warmups=tuple(self.warmups),
            observations=tuple(self.measured),
            latest=dict(self.latest),
        )

    def make(self, run: Run) -> None:
        """Make one run; the clock is read directly around the call."""
        work = self.conditions[run.condition]
        before = self.sampler()
        start = self.clock()
        value = work()
        end = self.clock()
        after = self.sampler()
        self._compare(run, value)
        seconds = (end - start) / 1e9
        made = self.warmups if run.warmup else self.measured
        made.append(
            Observation(
                condition=run.condition,
                repeat=run.repeat,
                position=len(made) + 1,
                seconds=seconds,
                started_s=(start - self.begun.origin_ns) / 1e9,
                threads=after.threads,
                load_before=before.load_average,
                load_after=after.load_average,
                elsewhere=elsewhere(before, after, seconds),
                stolen=stolen(before, after),
                value=self.digest(value),
            )
        )

    def _compare(self, run: Run, value: T) -> None:
        """LabError unless the value agrees with the last of its condition."""
        name = run.condition
        if name in self.latest and not self.check(
            name, self.latest[name], value
        ):
            kind = "warm-up" if run.warmup else "repeat"
            raise LabError(
                f"{name}, {kind} {run.repeat}: the result differs from the"
                " run before, so the times are not of the same work; find"
                " out why before measuring."
            )
        self.latest[name] = value


def _begin(
    schedule: Schedule,
    resume: Trials[T] | None,
    sampler: Callable[[], Sample],
    clock: Callable[[], int],
) -> Trials[T]:
    """New trials, or those to go on with if their schedule is the same."""
    if resume is None:
        return Trials(schedule, sampler().cores, clock())
    if resume.schedule != schedule:
        raise LabError(
            "These trials were begun with other conditions, repeats,"
            " warm-ups, seed or order: resume with the same ones, or start"
            " anew."
        )
    return resume
