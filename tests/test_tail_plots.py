"""Charts of tails: every observation in its place, theory as lines."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from labkit import tail_plots

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def drawn(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each labelled line."""
    return {
        str(line.get_label()): [
            (float(x), float(y)) for x, y in np.asarray(line.get_xydata())
        ]
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }


def heights(axes: Axes, place: int) -> list[float]:
    """How high the outline of a histogram goes in each of its bins."""
    (path,) = [axes.patches[place].get_path()]
    return [float(y) for _, y in np.asarray(path.vertices)[1:-1:2]]


def test_each_histogram_holds_all_of_its_values() -> None:
    few, many = [1.0, 2.0, 2.0, 90.0], [2.0] * 1000
    axes = tail_plots.histograms({"few": few, "many": many}, 2.5, "t", "ms")
    for place in (0, 1):
        assert sum(heights(axes, place)) == pytest.approx(1)
    assert max(heights(axes, 0)) == pytest.approx(0.75)
    assert legend_of(axes) == ["few", "many", "the true p99"]


def test_what_lies_beyond_is_in_the_last_bin() -> None:
    values = [float(n % 10) for n in range(1000)]
    axes = tail_plots.histograms({"a": [*values, *[1e9] * 4]}, 5, "t", "ms")
    assert heights(axes, 0)[-1] == pytest.approx(104 / 1004)
    assert axes.get_xlim()[1] < 10


def test_the_truth_is_a_line() -> None:
    axes = tail_plots.histograms({"a": [1.0, 2.0]}, 1.5, "t", "ms")
    assert [x for x, _ in drawn(axes)["the true p99"]] == [1.5, 1.5]


def test_equal_values_have_a_histogram() -> None:
    axes = tail_plots.histograms({"a": [3.0, 3.0]}, 3.0, "t", "ms")
    assert sum(heights(axes, 0)) == pytest.approx(1)


def test_every_request_is_a_point() -> None:
    runs = {"wire": [(1.0, 20.0), (2.0, 1500.0)], "due": [(1.0, 25.0)]}
    axes = tail_plots.in_time(runs, "t", "request", "E2E (ms)")
    assert drawn(axes) == {
        "wire (n = 2)": runs["wire"],
        "due (n = 1)": runs["due"],
    }
    assert axes.get_ylim()[0] == 0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("request", "E2E (ms)")


def rising() -> Axes:
    measured = {
        "p99": {50: [5.0, 7.0], 90: [20.0]},
        "mean": {50: [1.0], 90: [4.0]},
    }
    predicted = {
        "p99": {90: (15.0, 18.0, 30.0), 50: (4.0, 6.0, 8.0)},
        "mean": {50: (1.0, 1.5, 2.0), 90: (3.0, 5.0, 9.0)},
    }
    return tail_plots.under_load(
        measured, predicted, "t", "busy (%)", "E2E (ms)", banded="p99"
    )


def test_every_round_is_a_point_and_theory_a_line() -> None:
    axes = rising()
    assert drawn(axes)["p99"] == [(50, 5), (50, 7), (90, 20)]
    theory, points, *_ = axes.lines
    assert np.asarray(theory.get_xydata()).tolist() == [[50, 6], [90, 18]]
    assert theory.get_color() == points.get_color()
    assert legend_of(axes) == ["p99", "mean"]
    assert list(axes.get_xticks()) == [50, 90]


def test_the_band_is_that_of_one_series() -> None:
    (band,) = rising().collections
    assert isinstance(band, PolyCollection)
    corners = {
        tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices)
    }
    assert {(50, 4), (50, 8), (90, 15), (90, 30)} <= corners
