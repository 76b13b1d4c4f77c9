"""Controls over a waiting line: what they show and what they do."""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import fmean
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from labkit import plots, queue_sliders, tables
from labkit.queue_sliders import Choice, at_load, over_time

mpl.use("Agg")
MEAN_S = 0.1


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_wait_of_a_choice() -> None:
    # 0.8 / (1 - 0.8) service times for exponential ones, half if constant
    assert Choice(8, MEAN_S, 1.0, 1).wait_s == pytest.approx(0.4)
    assert Choice(8, MEAN_S, 0.0, 1).wait_s == pytest.approx(0.2)
    # M/M/2 at 80 %: 0.64 / 0.36 service times
    assert Choice(16, MEAN_S, 1.0, 2).wait_s == pytest.approx(0.64 / 3.6)


@pytest.mark.parametrize("rate", [10, 10.5])
def test_no_wait_at_or_over_capacity(rate: float) -> None:
    choice = Choice(rate, MEAN_S, 1.0, 1)
    assert choice.wait_s is None
    said = words(queue_sliders.result(choice))
    assert "none: the line grows as long as requests come" in said
    assert "by formula" not in said


@pytest.mark.parametrize(
    ("variation", "slots", "name"),
    [
        (2.0, 1, "Pollaczek-Khinchine"),
        (1.0, 3, "M/M/3"),
        (0.0, 2, "Lee-Longton, an approximation"),
    ],
)
def test_the_formula_has_its_name(
    variation: float, slots: int, name: str
) -> None:
    choice = Choice(5, MEAN_S, variation, slots)
    assert choice.formula == name
    assert name in words(queue_sliders.result(choice))


def test_at_load_gives_the_rate() -> None:
    choice = at_load(90, 0.5, 2, MEAN_S)
    assert choice.rate_per_s == pytest.approx(18)
    assert choice.load == pytest.approx(0.9)


def test_simulation_and_formula_are_of_one_line() -> None:
    choice = at_load(60, 1.0, 1, MEAN_S)
    waits = [visit.wait_s for visit in choice.simulated(60_000, seed=3)]
    assert fmean(waits) == pytest.approx(choice.wait_s, rel=0.1)


def test_more_load_never_shows_a_shorter_line() -> None:
    loads = range(10, 125, 5)
    for variation in (0.0, 1.0, 2.0):
        most = [
            max(over_time(at_load(load, variation, 1, MEAN_S))[1])
            for load in loads
        ]
        assert most == sorted(most)


def test_the_picture_grows_with_the_spread_and_shrinks_with_slots() -> None:
    def most(load: float, spread: float, slots: int = 1) -> int:
        return max(over_time(at_load(load, spread, slots, MEAN_S))[1])

    by_spread = [most(80, step / 4) for step in range(13)]
    assert by_spread == sorted(by_spread)
    assert by_spread[0] < by_spread[-1]
    constant, spread, two = (most(*each) for each in queue_sliders.PICTURED)
    assert constant < spread
    assert two < spread


def test_a_short_wait_is_not_shown_as_none() -> None:
    for load, told in ((3, "under 0.001 ms"), (10, "0.011 ms")):
        choice = at_load(load, 0.0, 4, MEAN_S)
        assert choice.wait_s
        assert f"by formula {told}" in words(queue_sliders.result(choice))


def test_there_are_never_less_than_none() -> None:
    for spread in (2.5, 2.75, 3.0):
        for load in range(20, 120, 20):
            assert min(over_time(at_load(load, spread, 1, MEAN_S))[1]) >= 0


def test_the_picture_says_what_its_top_is() -> None:
    drawn = queue_sliders.drawing(at_load(80, 1.0, 1, MEAN_S))
    top = re.search(r"top is (\d+)", drawn)
    assert top and f">{top[1]}</text>" in drawn and ">0</text>" in drawn


def test_moving_a_control_changes_the_figures() -> None:
    rate, spread, slots, said = queue_sliders.form(MEAN_S).children
    rate.value = next(v for _, v in rate.options if v == pytest.approx(8))
    assert "80 % load" in words(said.value)
    assert "400 ms, 4 service times" in words(said.value)
    spread.value = 2.0
    assert "1,000 ms, 10 service times" in words(said.value)
    slots.value = 2
    assert "40 % load" in words(said.value)
    assert "Lee-Longton" in words(said.value)
    assert "<svg" in said.value


def test_the_number_in_the_system_is_by_littles_law() -> None:
    # 5 a second, each for 0.1 s and, at half load, another 0.1 s of wait
    said = words(queue_sliders.result(Choice(5, MEAN_S, 1.0, 1)))
    assert re.search(r"in the system, by Little\S+s law 1\.00 ", said)


def test_every_rate_of_the_slider_has_figures() -> None:
    rate, _, slots, said = queue_sliders.form(MEAN_S).children
    for _, value in rate.options[:: len(rate.options) - 1]:
        rate.value = value
        for count in (slots.min, slots.max):
            slots.value = count
            assert "load" in words(said.value)


def test_a_reader_without_a_kernel_sees_the_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw: shown.append(data)
    )
    queue_sliders.show(MEAN_S)
    (data,) = shown
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == tables.as_text(queue_sliders.rows(MEAN_S))
    lines = [re.split(r"  +", x) for x in data["text/plain"].splitlines()]
    assert ["80 %", "1", "1", "8.00", "400", "4"] in lines
    assert ["105 %", "1", "1", "10.50", "grows", "grows"] in lines
    assert data["text/html"].count("<tr>") == len(lines)


def test_the_number_over_time_is_a_count() -> None:
    choice = at_load(80, 1.0, 1, MEAN_S)
    moments, numbers = queue_sliders.over_time(choice)
    assert moments == sorted(moments)
    assert (moments[0], numbers[0]) == (0, 0)
    assert moments[-1] == queue_sliders.SHOWN
    steps = {b - a for a, b in pairwise(numbers)}
    assert steps == {-1, 0, 1}
    assert min(numbers) >= 0


def test_arrivals_cover_the_whole_time() -> None:
    """Over capacity the last ones are not cut off early."""
    for load in (5, 50, 110):
        choice = at_load(load, 1.0, 4, MEAN_S)
        moments, _ = queue_sliders.over_time(choice)
        assert moments[-2] > 0.8 * queue_sliders.SHOWN


def test_the_picture_has_a_panel_for_each_setting() -> None:
    figure = plots.figure_of(queue_sliders.picture(MEAN_S))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "one slot, 80 % load, spread 0",
        "one slot, 80 % load, spread 1.5",
        "2 slots, 40 % load, spread 1.5",
    ]
    plt.close(figure)
