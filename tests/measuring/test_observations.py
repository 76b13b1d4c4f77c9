from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest

from labkit import observations as seen
from labkit.observations import Noise, Observation, Sample

NAMES = ("a", "b", "c", "d", "e", "f")


def session(
    cost: Callable[[int, str], float],
    repeats: int = 5,
    names: tuple[str, ...] = NAMES,
) -> list[Observation]:
    """Rounds of all names; `cost` gets the position and the name."""
    runs = [(n, name) for n in range(1, repeats + 1) for name in names]
    return [
        Observation(name, n, place, cost(place, name), float(place))
        for place, (n, name) in enumerate(runs, start=1)
    ]


def one(seconds: list[float]) -> Noise:
    """The verdict on one condition with these seconds."""
    runs = enumerate(seconds, start=1)
    return seen.noise_of(
        [Observation("a", n, n, s, float(n)) for n, s in runs], cores=2
    )


@pytest.mark.parametrize("seed", range(50))
def test_two_per_cent_of_noise_is_fit_to_quote(seed: int) -> None:
    source = random.Random(seed)
    base = {name: 10.0 * 2**i for i, name in enumerate(NAMES)}
    made = session(lambda _, name: base[name] * source.gauss(1, 0.02))
    assert seen.noise_of(made, cores=2) == Noise(False, ())


@pytest.mark.parametrize("seed", range(50))
def test_thirty_per_cent_of_noise_is_not(seed: int) -> None:
    source = random.Random(seed)
    made = session(lambda *_: source.lognormvariate(0, 0.3))
    noise = seen.noise_of(made, cores=2)
    assert noise.flagged
    assert any("outliers aside" in reason for reason in noise.reasons)


def test_the_reason_names_the_condition_that_spreads() -> None:
    source = random.Random(1)
    made = session(
        lambda _, name: (
            source.uniform(1, 2) if name == "c" else source.uniform(1, 1.01)
        )
    )
    (reason,) = seen.noise_of(made, cores=2).reasons
    assert reason.startswith("c: its runs spread over ")


@pytest.mark.parametrize(
    "seconds",
    [
        [7.4, 7.5, 7.6, 7.7, 11.5],
        [0.1, 1, 1, 1, 1],
        [1, 1, 2],
        [1, 1.05, 9],
        [1, 1, 1, 5],
        [1.0] * 9 + [9.0],
        [0, 0, 0, 0, 0],
        [3, 3, 3],
    ],
)
def test_one_outlier_is_no_reason(seconds: list[float]) -> None:
    assert not one(seconds).flagged


@pytest.mark.parametrize(
    "seconds",
    [
        [1, 1, 1, 1.5, 1.5],
        [1, 1, 1.5, 1.5],
        [1, 1.2, 1.4],
        [1, 1.2, 9],
        [1, 1.05, 1.1, 1.17, 1.2],
    ],
)
def test_two_kinds_of_runs_are_a_reason(seconds: list[float]) -> None:
    assert one(seconds).flagged


@pytest.mark.parametrize("seconds", [[1.0], [1.0, 1.0]])
def test_a_median_of_fewer_than_three_is_not_quoted(
    seconds: list[float],
) -> None:
    (reason,) = one(seconds).reasons
    assert f"{len(seconds)} of at least 3 runs" in reason


def test_the_spread_of_five_or_more_is_that_of_the_quartiles() -> None:
    assert seen.middle_spread([1, 2, 3, 4, 100]) == pytest.approx(2 / 3)
    assert seen.middle_spread([1, 2, 3, 40]) == pytest.approx(2 / 2.5)
    assert seen.middle_spread([10, 11, 40]) == pytest.approx(1 / 11)


def test_a_step_half_way_is_a_drift() -> None:
    noise = seen.noise_of(
        session(lambda place, _: 1.0 if place <= 15 else 1.2), cores=2
    )
    assert any(
        "second half of the session was 20% slower" in reason
        for reason in noise.reasons
    )


def test_a_machine_that_becomes_faster_drifts_too() -> None:
    noise = seen.noise_of(
        session(lambda place, _: 1.0 if place <= 15 else 0.8), cores=2
    )
    assert any("20% faster" in reason for reason in noise.reasons)


def test_conditions_of_different_length_are_no_drift() -> None:
    """Relative to its condition, no run is slow here."""
    made = session(lambda _, name: 1.0 if name == "a" else 50.0)
    blocked = sorted(made, key=lambda run: run.condition)
    moved = [
        replace(run, position=place) for place, run in enumerate(blocked, 1)
    ]
    assert not seen.noise_of(moved, cores=2).flagged


def test_a_drift_is_read_by_position_not_by_the_order_of_the_list() -> None:
    made = session(lambda place, _: 1.0 if place <= 15 else 1.2)
    source = random.Random(2)
    assert any(
        "slower" in reason
        for reason in seen.noise_of(
            source.sample(made, len(made)), cores=2
        ).reasons
    )


def test_too_few_runs_do_not_make_a_drift() -> None:
    """Three runs in each half: one outlier would decide."""
    made = session(lambda place, _: 1 + 0.2 * (place > 3), 6, ("a",))
    assert seen.drift(made) is None
    made = session(lambda place, _: 1 + 0.2 * (place > 4), 8, ("a",))
    assert seen.drift(made) == pytest.approx(1.2)


@pytest.mark.parametrize("place", range(1, 11))
def test_one_outlier_is_no_drift(place: int) -> None:
    made = session(lambda at, _: 9.0 if at == place else 1.0, 5, ("a", "b"))
    assert seen.drift(made) == 1


def test_blocks_that_lie_in_one_half_tell_no_drift() -> None:
    made = session(lambda *_: 1.0, repeats=4, names=("a", "b"))
    blocked = sorted(made, key=lambda run: run.condition)
    moved = [
        replace(run, position=place, seconds=1 + place)
        for place, run in enumerate(blocked)
    ]
    assert seen.drift(moved) is None


@pytest.mark.parametrize("zero", [1, 15, 16, 30])
def test_a_run_of_no_time_does_not_divide_by_zero(zero: int) -> None:
    made = session(lambda place, _: 0.0 if place == zero else 1.0)
    assert seen.drift(made) == 1
    made = session(lambda place, _: 0.0 if place >= zero else 1.0)
    seen.noise_of(made, cores=2)


def with_fields(**fields: float) -> list[Observation]:
    made = session(lambda *_: 1.0)
    return [replace(run, **fields) for run in made]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "cores", "word"),
    [
        ({"load_after": 2.7}, 2, "load average 2.7 on 2 cores"),
        ({"load_after": 2.4}, 2, None),
        ({"load_after": 2.7}, 4, None),
        ({"elsewhere": 0.9, "threads": 2}, 2, "0.9 of 2 cores busy"),
        ({"elsewhere": 0.2, "threads": 2}, 2, None),
        ({"elsewhere": 0.9, "threads": 2}, 4, None),
        ({"elsewhere": 0.9}, 2, None),
        ({"elsewhere": 1.4}, 2, "1.4 of 2 cores busy"),
        ({"stolen": 0.06}, 2, "6% of the machine's time"),
        ({"stolen": 0.01}, 2, None),
    ],
)
def test_what_others_take_is_a_reason(
    fields: dict[str, float], cores: int, word: str | None
) -> None:
    noise = seen.noise_of(with_fields(**fields), cores)
    if word is None:
        assert not noise.flagged
    else:
        (reason,) = noise.reasons
        assert word in reason


def test_what_others_take_is_weighed_by_time() -> None:
    """A tick during a run of a millisecond says next to nothing."""
    made = [
        Observation("a", n, n, s, 0.0, threads=2, elsewhere=e)
        for n, (s, e) in enumerate(
            [(1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (0.001, 10.0)], start=1
        )
    ]
    assert not seen.noise_of(made, cores=2).flagged


def test_no_observations_are_no_noise() -> None:
    assert not seen.noise_of([], cores=2).flagged


BEFORE = Sample(2, 2, 0.5, all_s=100, busy_s=50, own_s=20, stolen_s=1)


def test_elsewhere_is_what_this_process_did_not_do() -> None:
    after = replace(BEFORE, all_s=104, busy_s=53, own_s=22)
    assert seen.elsewhere(BEFORE, after, 2.0) == 0.5
    assert seen.elsewhere(BEFORE, after, 0.0) is None


def test_stolen_is_a_part_of_the_time_of_all_cores() -> None:
    after = replace(BEFORE, all_s=104, stolen_s=1.5)
    assert seen.stolen(BEFORE, after) == 0.125
    assert seen.stolen(BEFORE, replace(after, stolen_s=None)) is None
    assert seen.stolen(BEFORE, BEFORE) is None


def test_a_sample_of_this_machine_holds_together() -> None:
    first, second = seen.sample(), seen.sample()
    assert first.cores >= 1
    assert 0 < first.own_s <= second.own_s
    assert first.own_s < first.busy_s <= first.all_s
    assert first.all_s <= second.all_s
    assert (first.stolen_s is None) == (sys.platform != "linux")


Linux = namedtuple(
    "Linux", "user nice system idle iowait irq softirq steal guest guest_nice"
)
Mac = namedtuple("Mac", "user nice system idle")


def test_guests_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Linux, `user` has `guest` in it, and `nice` has `guest_nice`."""
    times = Linux(10, 5, 3, 100, 7, 1, 2, 4, 6, 2)
    monkeypatch.setattr(seen.psutil, "cpu_times", lambda: times)
    found = seen.sample()
    assert found.all_s == 132
    assert found.busy_s == 21
    assert found.stolen_s == 4


def test_what_a_system_does_not_tell_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seen.psutil, "cpu_times", lambda: Mac(10, 5, 3, 100))
    found = seen.sample()
    assert (found.all_s, found.busy_s, found.stolen_s) == (118, 18, None)


def test_workers_count_as_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        def __init__(self, pid: int) -> None:
            if pid == 404:
                raise psutil.NoSuchProcess(pid)
            self.seconds = 100.0 if pid == os.getpid() else 7.0

        def cpu_times(self) -> SimpleNamespace:
            return SimpleNamespace(user=self.seconds, system=1.0)

    monkeypatch.setattr(seen.psutil, "Process", Known)
    monkeypatch.setattr(seen.machine, "usable_cores", lambda: 2)
    assert seen.sample().own_s == 101
    assert seen.sample(workers=[5, 404]).own_s == 109


def test_threads_are_told_only_once_torch_is_loaded() -> None:
    code = (
        "from labkit.observations import sample\n"
        "assert sample().threads is None\n"
        "import sys, types\n"
        "fake = types.ModuleType('torch')\n"
        "fake.get_num_threads = lambda: 7\n"
        "sys.modules['torch'] = fake\n"
        "assert sample().threads == 7\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
