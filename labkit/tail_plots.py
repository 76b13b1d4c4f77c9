"""Charts of lesson 08: what a percentile hides, and when it rises.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from labkit import plots, stats

LINES = ("-", "--", ":", "-.", "-", "--")
BINS = 60


def histograms(
    samples: Mapping[str, Sequence[float]],
    truth: float,
    title: str,
    xlabel: str,
) -> Axes:
    """Outlines of histograms of printed p99s, over the same bins, and the
    true one.

    The bins reach from the smallest value to the 99.5th percentile of all;
    what lies beyond is counted in the last one.
    """
    axes = plots.new_axes(title, xlabel, "share of the draws")
    pooled = [value for values in samples.values() for value in values]
    low, high = min(pooled), stats.percentile(pooled, 99.5) or max(pooled)
    width = (high - low) / BINS or 1.0
    edges = [low + place * width for place in range(BINS + 1)]
    with plt.style.context(plots.STYLE):
        for index, (name, values) in enumerate(samples.items()):
            axes.hist(
                [min(value, high) for value in values],
                bins=edges,
                weights=[1 / len(values)] * len(values),
                histtype="step",
                linewidth=1.8,
                color=plots.COLOURS[index],
                linestyle=LINES[index],
                label=name,
            )
    axes.axvline(truth, color="black", linewidth=1, label="the true p99")
    axes.legend()
    return axes


def in_time(
    series: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    xlabel: str,
    ylabel: str,
) -> Axes:
    """Every request of several runs as a point: its moment and its time.

    Where points of several runs coincide, the smaller marks of later ones
    stand inside those of earlier ones.
    """
    axes = plots.new_axes(title, xlabel, ylabel)
    for index, (name, points) in enumerate(series.items()):
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linestyle="none",
            marker=plots.MARKERS[index],
            fillstyle="none",
            markersize=4 + 3 * (len(series) - 1 - index),
            color=plots.COLOURS[index],
            label=f"{name} (n = {len(points)})",
        )
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


Predicted = Mapping[int, tuple[float, float, float]]
"""By load in per cent: a low run's figure, a middle one's, a high one's."""


def under_load(  # noqa: PLR0913 - three texts and a name
    measured: Mapping[str, Mapping[int, Sequence[float]]],
    predicted: Mapping[str, Predicted],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    banded: str,
) -> Axes:
    """Each figure of every run as a point, and lines through the middles of
    what is predicted under the same name.

    The series `banded` has a band from its low runs to its high ones; with
    one for each they would hide each other.
    """
    axes = plots.new_axes(title, xlabel, ylabel)
    for index, (name, runs) in enumerate(measured.items()):
        color = plots.COLOURS[index]
        loads = sorted(predicted.get(name, {}))
        low, middle, high = (
            [predicted[name][load][k] for load in loads] for k in range(3)
        )
        axes.plot(loads, middle, color=color, linestyle=LINES[index])
        if name == banded:
            axes.fill_between(loads, low, high, color=color, alpha=0.15)
        pairs = [(load, y) for load, seen in runs.items() for y in seen]
        axes.plot(
            [x for x, _ in pairs],
            [y for _, y in pairs],
            linestyle="none",
            marker=plots.MARKERS[index],
            color=color,
            label=name,
        )
    axes.set_ylim(bottom=0)
    axes.set_xticks(
        sorted({load for runs in measured.values() for load in runs})
    )
    axes.legend(loc="upper left")
    return axes
