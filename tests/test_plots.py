"""Charts: labelled, captioned, the same bytes for the same picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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


CHARTS: dict[str, Callable[[], Axes]] = {
    "comparison": a_comparison,
    "staircase": a_staircase,
    "in_order": lambda: plots.in_order({"a": [1, 2]}, "t", "n", "time (s)"),
    "sweep": lambda: plots.sweep({8: [1, 2], 64: [3, 4]}, "t", "n", "s"),
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
