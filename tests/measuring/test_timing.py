from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

import pytest

from labkit import timing
from labkit.errors import LabError
from labkit.observations import Sample
from labkit.progress import HEADLESS, Bar, bar


class Scripted(Protocol):
    """What the fixtures give; see conftest.py."""

    calls: list[str]
    now_ns: int
    slow_after: int | None
    factor: int
    stop_at: int | None
    bars: list[Any]
    clock: Callable[[], int]
    work: Callable[..., Callable[[], Any]]
    measure: Callable[..., timing.Trials[Any]]


NewScripted = Callable[..., Scripted]

COSTS = {
    "a": [900, 100, 140, 120, 110, 130],
    "b": [7000, 1000, 3000, 2000, 5000, 4000],
    "c": [1, 10, 20, 30, 40, 50],
}


def conditions_of(machine: Scripted) -> dict[str, Callable[[], Any]]:
    """One warm-up each at the first cost, then five runs."""
    return {name: machine.work(name, costs) for name, costs in COSTS.items()}


def test_known_costs_give_exactly_their_medians(scripted: Scripted) -> None:
    trials = scripted.measure(conditions_of(scripted), repeats=5, warmups=1)
    for name, costs in COSTS.items():
        assert trials.seconds(name) == [ms / 1000 for ms in costs[1:]]
    assert [trials.median(name) for name in "abc"] == [0.12, 3.0, 0.03]


def test_every_run_is_made_and_no_other(scripted: Scripted) -> None:
    trials = scripted.measure(conditions_of(scripted), repeats=5, warmups=2)
    assert Counter(scripted.calls) == {"a": 7, "b": 7, "c": 7}
    assert scripted.calls[:6] == ["a", "a", "b", "b", "c", "c"]
    assert scripted.calls[6:] == list(trials.sequence)
    assert [run.position for run in trials.observations] == [*range(1, 16)]
    assert [run.repeat for run in trials.warmups] == [1, 2] * 3
    assert trials.complete


def test_each_round_has_every_condition_once(scripted: Scripted) -> None:
    trials = scripted.measure(conditions_of(scripted), repeats=40, warmups=0)
    rounds = [trials.sequence[i : i + 3] for i in range(0, 120, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) == 6
    numbers = [run.repeat for run in trials.observations]
    assert numbers == [n for n in range(1, 41) for _ in "abc"]


def test_a_seed_stands_for_one_order_everywhere(
    new_scripted: NewScripted,
) -> None:
    def order(**options: Any) -> str:
        machine = new_scripted()
        trials = machine.measure(
            conditions_of(machine), repeats=4, warmups=0, **options
        )
        return "".join(trials.sequence)

    assert order(seed=7) == order(seed=7) == "cabcabbcacab"
    assert order(seed=8) != order(seed=7)
    assert order(order="blocked") == "aaaabbbbcccc"


def test_the_clock_covers_the_call_and_nothing_else(
    scripted: Scripted, quiet: Sample
) -> None:
    """Sampling, checking and digesting take an hour each here."""

    def hour(*_: object) -> Any:
        scripted.now_ns += 3_600_000_000_000
        return quiet

    trials = scripted.measure(
        {"a": scripted.work("a", [250])},
        repeats=3,
        warmups=1,
        sampler=hour,
        digest=hour,
        check=hour,
    )
    assert trials.seconds("a") == [0.25] * 3
    assert trials.warmups[0].seconds == 0.25


def test_observations_tell_when_and_beside_what(
    scripted: Scripted, quiet: Sample
) -> None:
    ticks = count()

    def sampler() -> Sample:
        n = next(ticks)
        return replace(
            quiet, load_average=n, all_s=n, busy_s=n, own_s=0, stolen_s=n / 4
        )

    trials = scripted.measure(
        {"a": scripted.work("a", [500])}, repeats=2, warmups=0, sampler=sampler
    )
    first, second = trials.observations
    assert (first.started_s, second.started_s) == (0.0, 0.5)
    # Sample 0 is the session's own.
    assert (first.load_before, first.load_after) == (1, 2)
    assert first.elsewhere == 2
    assert first.stolen == 0.25
    assert first.threads == 2
    assert trials.cores == 2


def test_a_slow_second_half_leaves_interleaved_ratios_right(
    new_scripted: NewScripted,
) -> None:
    """b costs twice a; from the middle on the machine is 3 times slower."""

    def run(order: str) -> timing.Trials[Any]:
        machine = new_scripted(slow_after=4)
        work = {name: machine.work(name, [ms]) for name, ms in COST.items()}
        return machine.measure(work, repeats=4, warmups=0, order=order)

    COST = {"a": 100, "b": 200}
    fair, unfair = run("interleaved"), run("blocked")
    assert fair.median("b") / fair.median("a") == pytest.approx(2)
    assert fair.paired_ratio("b", "a") == pytest.approx(2)
    assert unfair.median("b") / unfair.median("a") == pytest.approx(6)
    assert unfair.paired_ratio("b", "a") == pytest.approx(6)


@pytest.mark.parametrize("slow_after", range(31))
def test_a_machine_that_slows_at_any_moment_spoils_no_paired_ratio(
    new_scripted: NewScripted, slow_after: int
) -> None:
    machine = new_scripted(slow_after=slow_after, factor=5)
    work = {
        name: machine.work(name, [ms])
        for name, ms in zip("abcdef", [10, 20, 30, 40, 50, 60], strict=True)
    }
    trials = machine.measure(work, repeats=5, warmups=0, seed=slow_after)
    for name, ratio in zip("bcdef", [2, 3, 4, 5, 6], strict=True):
        assert trials.paired_ratio(name, "a") == pytest.approx(ratio)


def test_the_ratio_of_medians_can_be_spoiled_where_the_paired_one_is_not(
    new_scripted: NewScripted,
) -> None:
    """Why there is a paired ratio: the slow half may begin mid-round."""
    spoiled = 0
    for seed in range(20):
        machine = new_scripted(slow_after=5)
        work = {"a": machine.work("a", [10]), "b": machine.work("b", [20])}
        trials = machine.measure(work, repeats=5, warmups=0, seed=seed)
        spoiled += trials.median("b") / trials.median("a") > 5
        assert trials.paired_ratio("b", "a") == pytest.approx(2)
    assert spoiled > 0


def test_a_round_that_was_cut_short_makes_no_pair(
    new_scripted: NewScripted,
) -> None:
    machine = new_scripted(stop_at=6)
    work = {"a": machine.work("a", [10]), "b": machine.work("b", [20])}
    part = machine.measure(work, repeats=3, warmups=0)
    assert len(part.observations) == 5
    assert part.paired_ratio("b", "a") == 2


def test_a_round_without_time_makes_no_pair(scripted: Scripted) -> None:
    work = {"a": scripted.work("a", [0, 10]), "b": scripted.work("b", [20])}
    trials = scripted.measure(work, repeats=2, warmups=0)
    assert trials.paired_ratio("b", "a") == 2
    idle = {"a": scripted.work("c", [0]), "b": scripted.work("d", [20])}
    trials = scripted.measure(idle, repeats=2, warmups=0)
    with pytest.raises(LabError):
        trials.paired_ratio("b", "a")


@pytest.mark.parametrize("stop_at", range(1, 22))
def test_interrupted_anywhere_it_keeps_all_and_goes_on(
    new_scripted: NewScripted, stop_at: int
) -> None:
    def measure(machine: Scripted, **options: Any) -> timing.Trials[Any]:
        return machine.measure(
            conditions_of(machine), repeats=5, warmups=2, **options
        )

    whole = measure(new_scripted())
    machine = new_scripted(stop_at=stop_at)
    part = measure(machine)
    assert len(part.warmups) + len(part.observations) == stop_at - 1
    assert not part.complete
    assert part.noise().flagged
    assert f"{len(part.observations)} of 15 runs" in part.noise().reasons[0]
    assert "resume=" in machine.bars[0].summary
    rest = measure(machine, resume=part)
    assert rest == whole
    assert machine.bars[1].total == 21 - (stop_at - 1)


def test_what_was_interrupted_twice_goes_on_twice(
    new_scripted: NewScripted,
) -> None:
    whole = new_scripted()
    expected = whole.measure(conditions_of(whole), repeats=5, warmups=0)
    machine = new_scripted(stop_at=4)
    part = machine.measure(conditions_of(machine), repeats=5, warmups=0)
    machine.stop_at = 9
    part = machine.measure(
        conditions_of(machine), repeats=5, warmups=0, resume=part
    )
    assert len(part.observations) == 8
    done = machine.measure(
        conditions_of(machine), repeats=5, warmups=0, resume=part
    )
    again = machine.measure(
        conditions_of(machine), repeats=5, warmups=0, resume=done
    )
    assert again == done == expected


@pytest.mark.parametrize(
    "change",
    [
        {"repeats": 4},
        {"warmups": 1},
        {"seed": 1},
        {"order": "blocked"},
    ],
)
def test_another_schedule_cannot_be_resumed(
    scripted: Scripted, change: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"repeats": 5, "warmups": 0}
    part = scripted.measure(conditions_of(scripted), **options)
    with pytest.raises(LabError, match="begun with other"):
        scripted.measure(
            conditions_of(scripted), **{**options, **change}, resume=part
        )
    fewer = {"a": scripted.work("a", [1])}
    with pytest.raises(LabError, match="begun with other"):
        scripted.measure(fewer, **options, resume=part)


def values(*each: Any) -> Callable[[], Any]:
    """A condition that returns these, one a call."""
    left: Iterator[Any] = iter(each)
    return lambda: next(left)


def test_results_that_differ_stop_the_measurement(scripted: Scripted) -> None:
    work = {"same": values(*[[1, 2]] * 4), "other": values(5, 5, 5, 6)}
    with pytest.raises(LabError, match="other, repeat 3: "):
        scripted.measure(work, repeats=3, warmups=1, check=timing.identical)
    assert scripted.bars[0].summary == ""


def test_warm_ups_must_agree_as_well(scripted: Scripted) -> None:
    with pytest.raises(LabError, match="a, warm-up 2: "):
        scripted.measure(
            {"a": values(1, 2)}, repeats=1, warmups=2, check=timing.identical
        )


def test_a_check_gets_the_previous_value_and_the_new(
    scripted: Scripted,
) -> None:
    told: list[tuple[str, int, int]] = []

    def check(name: str, previous: int, new: int) -> bool:
        told.append((name, previous, new))
        return True

    scripted.measure({"a": values(1, 2, 3)}, repeats=2, warmups=1, check=check)
    assert told == [("a", 1, 2), ("a", 2, 3)]


def test_a_check_reaches_over_an_interruption(scripted: Scripted) -> None:
    def stop() -> int:
        raise KeyboardInterrupt

    options: dict[str, Any] = {
        "repeats": 2,
        "warmups": 0,
        "order": "blocked",
        "check": timing.identical,
    }
    part = scripted.measure({"a": values(1, 1), "b": stop}, **options)
    assert len(part.observations) == 2
    part = replace(part, observations=part.observations[:1])
    with pytest.raises(LabError, match="a, repeat 2"):
        scripted.measure(
            {"a": values(9), "b": values(1, 1)}, **options, resume=part
        )


def test_values_are_kept_or_their_digests(scripted: Scripted) -> None:
    plain = scripted.measure({"a": values([1], [2])}, repeats=2, warmups=0)
    assert [run.value for run in plain.observations] == [[1], [2]]
    short = scripted.measure(
        {"a": values([1], [2, 3])}, repeats=2, warmups=0, digest=len
    )
    assert [run.value for run in short.observations] == [1, 2]


def test_an_error_of_the_work_is_not_hidden(scripted: Scripted) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scripted.measure({"a": broken}, repeats=1, warmups=0)
    assert scripted.bars[0].summary == ""


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"conditions": {}}, "Nothing to measure"),
        ({"repeats": 0}, "cannot be run"),
        ({"warmups": -1}, "cannot be run"),
        ({"order": "random"}, "no order 'random'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_starts(
    scripted: Scripted, change: dict[str, Any], word: str
) -> None:
    options = {
        "conditions": conditions_of(scripted),
        "repeats": 1,
        "warmups": 0,
        **change,
    }
    with pytest.raises(LabError, match=word):
        scripted.measure(**options)
    assert scripted.calls == []


def test_an_unknown_condition_is_named_with_the_known_ones(
    scripted: Scripted,
) -> None:
    trials = scripted.measure(conditions_of(scripted), repeats=1, warmups=0)
    with pytest.raises(LabError, match="'z' is none of: a, b, c"):
        trials.seconds("z")


def test_progress_is_told_each_run_and_the_end(scripted: Scripted) -> None:
    trials = scripted.measure(conditions_of(scripted), repeats=2, warmups=1)
    (told,) = scripted.bars
    assert told.total == 9
    assert told.labels == ["a", "b", "c", *trials.sequence]
    assert told.summary.startswith(
        "6 runs (2 of each condition) after 3 warm-ups,"
    )
    assert "Too noisy to quote: a: 2 of at least 3 runs" in told.summary


def test_a_quiet_session_says_so(scripted: Scripted) -> None:
    trials = scripted.measure(
        {"a": scripted.work("a", [100])}, repeats=5, warmups=0
    )
    assert not trials.noise().flagged
    assert "small enough to quote" in scripted.bars[0].summary


def test_the_noise_of_trials_knows_the_cores(
    scripted: Scripted, quiet: Sample
) -> None:
    loud = replace(quiet, load_average=3.0)
    for cores, flagged in ((2, True), (4, False)):
        machine = replace(loud, cores=cores)
        trials = scripted.measure(
            {"a": scripted.work("a", [100])},
            repeats=5,
            warmups=0,
            sampler=lambda machine=machine: machine,
        )
        assert trials.noise().flagged == flagged


def test_the_real_clock_and_sampler_work_together() -> None:
    source = random.Random(0)
    trials = timing.measure(
        {"sum": lambda: sum(source.random() for _ in range(100))},
        repeats=3,
        warmups=1,
    )
    assert trials.complete
    assert all(run.seconds > 0 for run in trials.observations)
    assert all(run.load_before is not None for run in trials.observations)


def test_no_bar_is_drawn_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv(HEADLESS, "1")
    shown = bar(2)
    shown.advance("a")
    shown.close("one line")
    out, err = capsys.readouterr()
    assert (out, err) == ("one line\n", "")


def test_a_bar_at_a_terminal_shows_the_run_and_leaves_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    shown = bar(2)
    shown.advance("first")
    shown.close("one line")
    out, err = capsys.readouterr()
    assert out == "one line\n"
    assert "Measuring" in err
    assert "/2" in err
    assert not err.endswith("\n")
    assert err.split("\r")[-1].strip() == ""


def test_no_summary_prints_no_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Bar(1, "Measuring", visible=False).close("")
    assert capsys.readouterr() == ("", "")
