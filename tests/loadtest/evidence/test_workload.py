"""Prompts of exact length, all different; schedules; plans."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from labkit.errors import LabError
from labkit.loadtest import plan, schedule, workload
from labkit.loadtest.plan import Configuration, Plan, number

TEXT = list(range(100, 700))


@pytest.mark.parametrize("length", [1, 2, 64, 256, 8191])
def test_prompts_have_exactly_the_length(length: int) -> None:
    for prompts in (
        workload.from_text(TEXT, [length] * 20, seed=1),
        workload.random_ids(49_152, [length] * 20, seed=1),
    ):
        assert [len(prompt) for prompt in prompts] == [length] * 20
        assert len(set(prompts)) == 20


def test_no_prompt_is_the_beginning_of_another() -> None:
    """Or a server that remembers prompts would have part of its work done."""
    lengths = [64, 256] * 50
    prompts = workload.from_text(TEXT, lengths, seed=3)
    assert [len(prompt) for prompt in prompts] == lengths
    assert len({prompt[:64] for prompt in prompts}) == 100


def test_windows_that_begin_alike_are_taken_once() -> None:
    prompts = workload.from_text([1] * 10 + [2], [2, 3, 3], seed=0)
    assert {prompt[:2] for prompt in prompts} == {(1, 1), (1, 2), (2, 1)}


def test_windows_go_on_at_the_start_of_the_text() -> None:
    for prompt in workload.from_text([1, 2, 3], [7, 7, 7], seed=0):
        assert all(b == a % 3 + 1 for a, b in pairwise(prompt))


def test_a_seed_gives_the_same_prompts_again() -> None:
    first, again, other = (
        workload.from_text(TEXT, [8] * 5, seed) for seed in (1, 1, 2)
    )
    assert first == again != other
    drawn = [workload.random_ids(1000, [8] * 5, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [([8] * 601, "only 600 different"), ([0], "at least one token")],
)
def test_prompts_that_cannot_be_made(
    lengths: list[int], sentence: str
) -> None:
    with pytest.raises(LabError, match=sentence):
        workload.from_text(TEXT, lengths, seed=1)


def test_texts_and_vocabularies_that_are_too_small() -> None:
    with pytest.raises(LabError, match="no token"):
        workload.from_text([], [1], seed=1)
    with pytest.raises(LabError, match="no token"):
        workload.random_ids(0, [1], seed=1)
    with pytest.raises(LabError, match="only 2 different"):
        workload.random_ids(2, [1, 1, 1], seed=1)
    with pytest.raises(LabError, match="only 1 different"):
        workload.from_text([5, 5, 5], [1, 1], seed=1)


@pytest.mark.model
def test_the_passage_has_room_for_the_matrix(model_home: Path) -> None:
    ids = workload.passage_ids(model_home)
    assert len(ids) > 500
    assert len(workload.from_text(ids, [64, 256] * 28, seed=12)) == 56


def test_a_constant_rate_does_not_drift() -> None:
    """Each moment is computed, none is added to the one before."""
    offsets = schedule.constant_ns(200.0, 1000)
    assert offsets == [5_000_000 * n for n in range(1000)]
    assert schedule.constant_ns(3.0, 4)[3] == 10**9


def test_poisson_arrivals_have_the_rate_and_the_spread() -> None:
    offsets = schedule.poisson_ns(50.0, 20_000, seed=4)
    gaps = [after - before for before, after in pairwise(offsets)]
    assert offsets[0] == 0
    assert min(gaps) >= 0
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(2e7, rel=0.03)
    # The share of gaps longer than the mean is 1/e.
    longer = sum(gap > 2e7 for gap in gaps) / len(gaps)
    assert longer == pytest.approx(0.3679, abs=0.015)
    assert offsets == schedule.poisson_ns(50.0, 20_000, seed=4)
    assert offsets != schedule.poisson_ns(50.0, 20_000, seed=5)


def test_recorded_arrivals_begin_at_0(tmp_path: Path) -> None:
    path = tmp_path / "arrivals"
    path.write_text("10.5\n\n10.5\n12\n", encoding="utf-8")
    moments = schedule.read_moments_s(path)
    assert schedule.recorded_ns(moments) == [0, 0, 1_500_000_000]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1\nx\n", "no list of arrivals"),
        ("2\n1\n", "fall from 2"),
        ("", "are empty"),
        ("0\nnan\n", "fall from"),
        ("nan\n", "more than a day"),
        ("inf\n", "more than a day"),
        ("0\n1e9\n", "more than a day"),
        (None, "No such file"),
    ],
)
def test_recorded_arrivals_that_are_refused(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    path = tmp_path / "arrivals"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=sentence):
        schedule.recorded_ns(schedule.read_moments_s(path))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"clients": 1, "arrivals": "constant"},
        {"clients": 0},
        {"clients": -1},
        {"clients": 1, "threads": 0},
        {"arrivals": "poisson", "rate_per_s": 0.0},
        {"arrivals": "poisson", "rate_per_s": float("nan")},
        {"arrivals": "poisson", "rate_per_s": float("inf")},
    ],
)
def test_configurations_that_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(LabError, match=r"^x: "):
        Configuration("x", **fields)  # type: ignore[arg-type]  # wrong fields


def a_plan(
    warmups: list[tuple[int, ...]], measured: list[tuple[int, ...]]
) -> Plan:
    asked = Configuration("x", clients=1)
    requests = (
        *number("x", "warmup", warmups, 1),
        *number("x", "measured", measured, 1),
    )
    return Plan(0, "", 9, (asked,), requests)


def test_a_prompt_is_not_in_both_phases() -> None:
    made = a_plan([(1,)], [(2,), (3,)])
    assert [each.request for each in made.of("x", "measured")] == [
        "m000",
        "m001",
    ]
    with pytest.raises(LabError, match="in the warm-up and in the measured"):
        a_plan([(1,)], [(2,), (1,)])
    with pytest.raises(LabError, match="Nothing to measure"):
        a_plan([(1,)], [])


def test_names_differ() -> None:
    asked = Configuration("x", clients=1)
    request = number("x", "measured", [(1,)], 1)
    with pytest.raises(LabError, match="'x' is planned twice"):
        Plan(0, "", 9, (asked, asked), tuple(request))
    with pytest.raises(LabError, match="'m000' is planned twice"):
        Plan(0, "", 9, (asked,), (*request, *request))


def test_a_burst_needs_several_clients() -> None:
    bursts = [Configuration("x", clients=n).burst for n in (1, 2, 8)]
    assert bursts == [0, 2, 8]
    assert Configuration("x", arrivals="recorded").burst == 0


def test_seeds_touch_no_other_random_number() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    workload.from_text(TEXT, [4], seed=1)
    schedule.poisson_ns(1.0, 3, seed=1)
    assert random.random() == expected
    assert plan.STALL_MS > 0
