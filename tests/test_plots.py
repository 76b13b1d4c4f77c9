"""Charts: labelled, captioned, the same bytes for the same picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from labkit import plots
from labkit.comparison import Against, Comparison, Row
from labkit.plots import Served

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def row(name: str, value: Any, **more: Any) -> Row:
    fields: dict[str, Any] = {
        "unit": "s",
        "predicted": None,
        "spread": None,
        "interval": None,
        "expected": "will not match",
        "verdict": "",
        "against": (),
    }
    return Row(name=name, value=value, **{**fields, **more})


def against(key: str, value: Any) -> Against:
    return Against(key, value, None, None, None, None, None, "")


def a_comparison() -> Axes:
    rows = (
        row("time_s", 2.0, predicted=4.0, against=(against("A*", 1.0),)),
        row("alone_s", 2.0),
        row("tokens", [1, 2], expected="must match"),
    )
    return plots.comparison(Comparison("02", rows, (), (), (), ()))


def a_staircase() -> Axes:
    group = [Served(5.0, 5.0, 6.0), Served(5.0, 6.0, 7.0)]
    return plots.staircase({"two": group}, "in turn")


def a_power(scale: Literal["linear", "log"]) -> Axes:
    measured = {"runs": {64: [1.0, 3.0], 128: [4.0]}, "more": {64: [2.0]}}
    computed = {"line": {64: 1.0, 256: 4.0}, "square": {64: 1.0, 256: 16.0}}
    return plots.measured_and_computed(
        measured, computed, "t", "n", "s", scale=scale
    )


def two_heads() -> Axes:
    look = [[1.0, 0.0], [0.3, 0.7]]
    return plots.attention({"head 0": look, "head 1": look}, ["a", "b"], "t")


def a_ranking() -> Axes:
    groups = {"MHA": {"large": 512.0}, "MQA": {"small": 8.0, "middle": 20.0}}
    return plots.ranked(groups, "t", "KiB")


def some_strips() -> Axes:
    seen = {"one": [1.0, 2.0], "other": [3.0]}
    marks = {"computed": {"one": 1.5}, "first": {"one": 4.0, "other": 5.0}}
    return plots.strips(seen, marks, "t", "x")


CHARTS: dict[str, Callable[[], Axes]] = {
    "ranked": a_ranking,
    "strips": some_strips,
    "comparison": a_comparison,
    "staircase": a_staircase,
    "in_order": lambda: plots.in_order({"a": [1, 2]}, "t", "n", "time (s)"),
    "sweep": lambda: plots.sweep({8: [1, 2], 64: [3, 4]}, "t", "n", "s"),
    "measured_and_computed": lambda: a_power("log"),
    "lines": lambda: some_lines(logarithmic=True),
    "attention": two_heads,
    "changes": lambda: plots.changes([[0.0, 1.0]], ["a", "b"], "t"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_the_same_picture_is_the_same_bytes(name: str) -> None:
    one, other = (plots.png(plots.figure_of(CHARTS[name]())) for _ in "ab")
    assert one == other
    assert one.startswith(b"\x89PNG")
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", CHARTS)
def test_title_and_axis_are_there(name: str) -> None:
    axes = CHARTS[name]()
    assert axes.get_title()
    assert axes.get_xlabel()


def test_a_comparison_shows_only_what_has_something_beside_it() -> None:
    labels = [tick.get_text() for tick in a_comparison().get_yticklabels()]
    assert labels == ["time_s"]


@pytest.mark.parametrize(
    ("lowest", "highest", "labels"),
    [
        (0.995, 1.004, ["0.996", "0.998", "1", "1.002", "1.004"]),
        (0.93, 1.06, ["0.95", "1", "1.05"]),
        (0.55, 0.96, ["0.6", "0.7", "0.8", "0.9", "1"]),
        (0.3, 3, ["0.5", "1", "2"]),
        (0.02, 1, ["0.02", "0.05", "0.1", "0.2", "0.5", "1"]),
        (0.001, 20, ["0.001", "0.01", "0.1", "1", "10"]),
        (0.00001, 300, ["0.0001", "0.01", "1", "100"]),
    ],
)
def test_labels_of_a_comparison_have_room(
    lowest: float, highest: float, labels: list[str]
) -> None:
    both = (against("A", lowest), against("a-longer-name", highest))
    rows = (row("time_of_the_whole_s", 1.0, against=both),)
    axes = plots.comparison(Comparison("02", rows, (), (), (), ()))
    plots.figure_of(axes).canvas.draw()
    ticks = axes.xaxis.get_major_ticks() + axes.xaxis.get_minor_ticks()
    low, high = axes.get_xlim()
    shown = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    shown = [label for label in shown if label.get_text()]
    assert [label.get_text() for label in shown] == labels
    boxes = [label.get_window_extent() for label in shown]
    gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
    assert min(gaps) > 5


def test_points_of_a_comparison_are_relative_to_this_run() -> None:
    axes = a_comparison()
    found = {
        line.get_label(): np.asarray(line.get_xdata()).tolist()
        for line in axes.lines
    }
    assert found["predicted"] == [2.0]
    assert found["A*"] == [0.5]
    markers = [line.get_marker() for line in axes.lines]
    named = [m for m in markers if m not in ("None", "")]
    assert len(set(named)) == len(named)


def test_waiting_and_work_of_a_staircase() -> None:
    bars = [
        (bar.get_x(), bar.get_width())
        for bar in a_staircase().patches
        if isinstance(bar, Rectangle)
    ]
    assert bars == [(0, 0), (0, 1), (0, 1), (1, 1)]


def test_served_puts_the_work_at_the_end() -> None:
    answer = {"sent": 1_000_000_000, "got": 4_000_000_000, "seconds": 1.0}
    assert plots.served(answer) == Served(1.0, 3.0, 4.0)


def test_shown_with_caption_and_alternative_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[tuple[dict[str, str], dict[str, Any]]] = []

    def display(data: dict[str, str], **more: Any) -> None:
        shown.append((data, more))

    monkeypatch.setattr("IPython.display.display", display)
    plots.show(a_staircase(), "Figure 1. Bars.", "Two bars, one above.")
    (picture, more), (caption, _) = shown
    assert picture["text/plain"] == "Two bars, one above."
    assert more["metadata"]["image/png"]["alt"] == "Two bars, one above."
    assert caption["text/markdown"] == "*Figure 1. Bars.*"


def test_measured_is_points_and_computed_is_lines() -> None:
    found = {
        line.get_label(): (
            np.asarray(line.get_xydata()).tolist(),
            line.get_linestyle(),
            line.get_marker(),
        )
        for line in a_power("linear").lines
    }
    assert found == {
        "runs": ([[64, 1], [64, 3], [128, 4]], "None", "o"),
        "more": ([[64, 2]], "None", "s"),
        "line": ([[64, 1], [256, 4]], "--", "None"),
        "square": ([[64, 1], [256, 16]], "-.", "None"),
    }
    colours = {line.get_color() for line in a_power("linear").lines}
    assert len(colours) == 4


def test_logarithmic_axes_mark_powers_of_two() -> None:
    axes = a_power("log")
    plots.figure_of(axes).canvas.draw()
    low, high = axes.get_xlim()
    ticks = axes.xaxis.get_major_ticks()
    shown = [t.label1.get_text() for t in ticks if low <= t.get_loc() <= high]
    assert shown == ["64", "128", "256"]
    assert axes.get_yscale() == "log"
    assert a_power("linear").get_ylim()[0] == 0


def test_a_line_named_like_a_series_has_its_colour_and_no_entry() -> None:
    runs = {"128 in": {8: [1.0]}, "256 in": {8: [2.0]}}
    lines = {"256 in": {8: 2.0, 64: 9.0}, "own": {8: 3.0}}
    axes = plots.measured_and_computed(runs, lines, "t", "n", "s")
    colours = [line.get_color() for line in axes.lines]
    assert colours[2] == colours[1]
    assert len(set(colours)) == 3
    legend = axes.get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["128 in", "256 in", "own"]


def some_lines(*, logarithmic: bool = False, panels: int = 1) -> Axes:
    series = {"a": {1: [1.0, 3.0], 4: [9.0]}, "b": {1: [2.0], 4: [5.0]}}
    labels = ("time (s)", "positions")[:panels]
    return plots.lines(
        dict.fromkeys(labels, series), "t", "n", logarithmic=logarithmic
    )


def test_lines_have_every_observation_and_go_through_the_medians() -> None:
    one = some_lines()
    drawn = [np.asarray(line.get_xydata()).tolist() for line in one.lines]
    assert drawn[:2] == [[[1, 2], [4, 9]], [[1, 1], [1, 3], [4, 9]]]
    legend = one.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    markers = {line.get_marker() for line in one.lines}
    assert markers == {"None", "o", "s"}
    assert one.get_ylim()[0] == 0


def test_each_panel_of_lines_has_its_own_label() -> None:
    figure = plots.figure_of(some_lines(panels=2))
    assert [a.get_ylabel() for a in figure.axes] == ["time (s)", "positions"]
    assert [a.get_xlabel() for a in figure.axes] == ["n", "n"]


def test_heights_within_two_decades_are_plain_numbers() -> None:
    axes = some_lines(logarithmic=True)
    plots.figure_of(axes).canvas.draw()
    low, high = axes.get_ylim()
    ticks = axes.yaxis.get_major_ticks()
    shown = [t.label1.get_text() for t in ticks if low <= t.get_loc() <= high]
    assert shown == ["1", "2", "5", "10"]


def test_a_heat_map_of_attention_leaves_the_future_blank() -> None:
    figure = plots.figure_of(two_heads())
    for axes in figure.axes[:2]:
        cells: Any = np.ma.asarray(axes.collections[0].get_array())
        assert cells.filled(-1).reshape(2, 2).tolist() == [
            [1.0, -1.0],
            [0.3, 0.7],
        ]
    assert [a.get_title() for a in figure.axes[:2]] == ["head 0", "head 1"]
    labels = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert labels == ["a", "b"]


@pytest.mark.parametrize(
    ("apart", "blank"),
    [([[0.0, 2.0], [0.0, 0.5]], 2), ([[0.0, 0.0], [0.0, 0.0]], 4)],
)
def test_changes_leave_blank_what_is_the_same(
    apart: list[list[float]], blank: int
) -> None:
    axes = plots.changes(apart, ["a", "b"], "t")
    cells: Any = np.ma.asarray(axes.collections[0].get_array())
    assert int(np.ma.count_masked(cells)) == blank
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0 a", "1 b"]
    plots.png(plots.figure_of(axes))


def points(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each series by its name in the legend."""
    return {
        str(line.get_label()): [
            (float(x), float(y))
            for x, y in zip(
                np.asarray(line.get_xdata()),
                np.asarray(line.get_ydata()),
                strict=True,
            )
        ]
        for line in axes.lines
    }


def test_a_ranking_goes_from_small_to_large() -> None:
    axes = a_ranking()
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert labels == ["small", "middle", "large"]
    assert points(axes) == {
        "MHA": [(512, 2)],
        "MQA": [(8, 0), (20, 1)],
    }
    assert len({line.get_marker() for line in axes.lines}) == 2


def test_strips_show_every_run_and_the_marks_in_its_row() -> None:
    axes = some_strips()
    assert points(axes) == {
        "each run": [(1, 0), (2, 0), (3, 1)],
        "computed": [(1.5, 0)],
        "first": [(4, 0), (5, 1)],
    }
    assert len({line.get_marker() for line in axes.lines}) == 3


def test_a_time_line_has_bars_by_kind_and_a_mark_for_each_moment() -> None:
    axes = plots.timeline(
        {
            "first": plots.Track([("queue", 2, 3), ("decode", 3, 7)], [3, 5]),
            "second": plots.Track([("queue", 2, 7)], [8]),
        },
        "two",
        "ms",
        "a token",
    )
    bars = [p for p in axes.patches if isinstance(p, Rectangle)]
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert spans == [(2, 3), (3, 7), (2, 7)]
    assert bars[0].get_facecolor() == bars[2].get_facecolor()
    assert bars[0].get_hatch() != bars[1].get_hatch()
    marks = [
        (float(x), float(y))
        for line in axes.lines
        for x, y in np.column_stack(line.get_data())
    ]
    assert marks == [(3, 0), (5, 0), (8, 1)]
    assert [t.get_text() for t in axes.get_yticklabels()] == [
        "first",
        "second",
    ]
    legend = axes.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == [
        "a token",
        "queue",
        "decode",
    ]
    assert axes.get_xlim()[0] == 0


def test_a_time_line_without_bars_is_marks_alone() -> None:
    axes = plots.timeline(
        {"whole": plots.Track(moments=[5.0])}, "t", "ms", "a piece"
    )
    assert not axes.patches
    assert axes.get_xlim()[0] == 0
