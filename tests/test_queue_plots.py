"""Charts of waiting lines: what is drawn where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from labkit import plots, queue_plots
from labkit.stats import Interval, mean_interval

mpl.use("Agg")
SPANS = [(0.0, 3.0), (1.0, 5.0), (2.0, 6.0), (7.0, 9.0)]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def points(line: Line2D) -> list[list[float]]:
    data: Any = line.get_xydata()
    pairs: list[list[float]] = data.tolist()
    return pairs


def heights(line: Line2D) -> list[float]:
    return [y for _, y in points(line)]


def a_flow() -> Axes:
    return queue_plots.flow(SPANS, "a title")


def a_line() -> Axes:
    return queue_plots.in_system(SPANS, {"whole": (0, 9)}, "a title")


def some_waits() -> Axes:
    return queue_plots.waits(
        {"formula": {10: 0.1, 50: 1.0, 90: 9.0}},
        {"runs": {50: [0.5, 1.0, 2.0], 80: [3.0]}, "others": {90: [8.0, 9.0]}},
        "a title",
        "wait",
    )


def some_intervals() -> Axes:
    found = [Interval(1, 2, 0.95), Interval(3, 5, 0.95)]
    return queue_plots.intervals(
        {"one": found, "other": found[1:]}, 4, "a title", "wait"
    )


def a_loop() -> Axes:
    return queue_plots.within_bounds(
        {"rate": {"runs": {1: [2.0, 3.0], 4: [3.5]}}},
        {"rate": {1: 4.0, 4: 9.0}},
        "a title",
        "clients",
    )


def two_knees() -> Axes:
    times = {"a": {0.0: 1.0, 50.0: 2.0}, "b": {0.0: 1.0, 50.0: 4.0}}
    marks = {"a": (50, 2.0), "b": (30, 3.0)}
    return queue_plots.knees(times, marks, "a title", "time")


def two_panels() -> Axes:
    panels = {"a": ([0.0, 1.0], [0, 1]), "b": ([0.0, 2.0], [0, 2])}
    return queue_plots.stacked(panels, "a title", "time")


CHARTS: dict[str, Callable[[], Axes]] = {
    chart.__name__: chart
    for chart in (
        a_flow,
        a_line,
        some_waits,
        some_intervals,
        a_loop,
        two_knees,
        two_panels,
    )
}


@pytest.mark.parametrize("name", CHARTS)
def test_the_same_picture_is_the_same_bytes(name: str) -> None:
    one, other = (plots.png(plots.figure_of(CHARTS[name]())) for _ in "ab")
    assert one == other
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", CHARTS)
def test_there_is_a_title(name: str) -> None:
    axes = CHARTS[name]()
    above = plots.figure_of(axes).get_suptitle()
    assert "a title" in (above, axes.get_title())


def test_steps_count_who_is_inside() -> None:
    moments, numbers = queue_plots.steps(SPANS)
    assert moments == [0, 1, 2, 3, 5, 6, 7, 9]
    assert numbers == [1, 2, 3, 2, 1, 0, 1, 0]


def test_one_goes_before_another_comes_at_the_same_moment() -> None:
    _, numbers = queue_plots.steps([(0.0, 1.0), (1.0, 2.0)])
    assert max(numbers) == 1


def test_flow_ends_where_all_that_came_are_gone() -> None:
    came, gone = map(heights, a_flow().lines)
    assert came == [0, 1, 2, 3, 3, 3, 3, 4, 4]
    assert gone == [0, 0, 0, 0, 1, 2, 3, 3, 4]


def test_windows_stand_above_the_line_at_their_times() -> None:
    axes = queue_plots.in_system(
        SPANS, {"whole": (0, 9), "cut": (1, 4)}, "title"
    )
    found = [(bar.get_x(), bar.get_width()) for bar in axes.patches]  # type: ignore[attr-defined]  # bars are rectangles
    assert found == [(0, 9), (1, 3)]
    assert all(bar.get_y() > 3 for bar in axes.patches)  # type: ignore[attr-defined]  # bars are rectangles


def test_each_run_is_a_point_and_several_have_an_interval() -> None:
    axes = some_waits()
    drawn = [heights(line) for line in axes.lines]
    assert [0.5, 1.0, 2.0] in drawn
    assert [3.0] in drawn
    interval = mean_interval([8.0, 9.0])
    assert interval is not None
    bottom = axes.get_ylim()[0]
    assert [max(interval.low, bottom), interval.high] in drawn
    # one run has no interval: 2 loads with one, 3 with points, a line, and
    # a legend's mark for each of two series
    assert len(drawn) == 2 + 3 + 1 + 2


def test_every_wait_is_in_sight() -> None:
    low, high = some_waits().get_ylim()
    assert low < 0.1
    assert high > 9


def test_a_run_without_a_wait_leaves_the_others_in_sight() -> None:
    axes = queue_plots.waits(
        {"formula": {10: 0.1}}, {"runs": {10: [0.0, 0.2]}}, "a title", "wait"
    )
    low, high = axes.get_ylim()
    assert 0 < low < 0.1
    assert high > 0.2


def test_an_interval_that_misses_is_marked() -> None:
    axes = some_intervals()
    marks = [line.get_marker() for line in axes.lines]
    assert marks.count("x") == 1
    assert marks.count("|") == 1
    other = plots.figure_of(axes).axes[1]
    assert "x" not in [line.get_marker() for line in other.lines]


def test_a_bound_is_in_sight() -> None:
    axes = a_loop()
    (bound,) = (x for x in axes.lines if x.get_label() == "bound")
    assert points(bound) == [[1, 4], [4, 9]]
    assert axes.get_ylim()[1] > 9


def test_a_mark_stands_where_it_is_asked_for() -> None:
    drawn = [points(line) for line in two_knees().lines]
    assert [each for each in drawn if len(each) == 1] == [
        [[50, 2.0]],
        [[30, 3.0]],
    ]
