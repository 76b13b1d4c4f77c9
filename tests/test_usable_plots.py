"""Charts of lesson 11: what they draw, and what they say of "never"."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from labkit import plots, usable_plots
from labkit.usable import Outcome

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def points(axes: Axes, label: str) -> list[tuple[float, float]]:
    """All points that stand under a label."""
    lines = [line for line in axes.lines if line.get_label() == label]
    return [pair for line in lines for pair in pairs(line)]


def pairs(line: Line2D) -> list[tuple[float, float]]:
    xs, ys = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    return list(zip(xs.tolist(), ys.tolist(), strict=True))


def a_chart() -> Axes:
    return usable_plots.milestones(
        {
            "whole": {"first": [10.0, 12.0], "object": [30.0, 33.0]},
            "cut": {"first": [11.0, 11.0], "object": [None, None]},
            "once": {"first": [9.0, 9.0], "object": [None, 20.0]},
        },
        "moments",
    )


def test_every_run_has_a_mark() -> None:
    axes = a_chart()
    first = points(axes, "first")
    assert first == [(10, 0), (12, 0), (11, 1), (11, 1), (9, 2), (9, 2)]
    assert points(axes, "object") == [(30, 0), (33, 0), (20, 2)]


def test_never_is_said_in_words() -> None:
    axes = a_chart()
    assert [text.get_text() for text in axes.texts] == ["never: object"]


def test_each_milestone_once_in_the_legend_with_a_marker_of_its_own() -> None:
    axes = a_chart()
    (legend,) = plots.figure_of(axes).legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "first",
        "object",
    ]
    markers = {line.get_marker() for line in legend.get_lines()}
    assert len(markers) == 2


def test_milestones_are_labelled() -> None:
    axes = a_chart()
    assert axes.get_title() == "moments"
    assert "(ms)" in axes.get_xlabel()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["whole", "cut", "once"]


def test_nothing_was_reached_at_all() -> None:
    axes = usable_plots.milestones({"a": {"object": [None]}}, "t")
    assert [text.get_text() for text in axes.texts] == ["never: object"]
    assert plots.png(plots.figure_of(axes))


def shares() -> Axes:
    return usable_plots.share_usable(
        {
            "most": [Outcome(500, 500), Outcome(200, 200), Outcome(900, None)],
            "none": [Outcome(1000, None)],
        },
        "shares",
    )


def test_a_step_for_each_usable_answer_and_none_for_never() -> None:
    most, none = shares().lines
    times, share = zip(*pairs(most), strict=True)
    assert times == pytest.approx((0, 0.2, 0.5, 1.05))
    assert share == pytest.approx((0, 1 / 3, 2 / 3, 2 / 3))
    assert pairs(none) == [(0, 0), (1.05, 0)]


def test_the_legend_says_how_many() -> None:
    axes = shares()
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "most (2 of 3)",
        "none (0 of 1)",
    ]
    assert "(s)" in axes.get_xlabel()
    low, high = axes.get_ylim()
    assert low < 0
    assert high > 1


def test_the_same_bytes_each_time() -> None:
    first, second = (plots.png(plots.figure_of(shares())) for _ in range(2))
    assert first == second
