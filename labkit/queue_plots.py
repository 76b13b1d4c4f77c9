"""Charts of waiting lines, in the course's style.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from labkit import plots, stats
from labkit.plots import COLOURS, HATCHES, MARKERS
from labkit.stats import Interval

Span = tuple[float, float]
"""Begin and end of a request in the system, in seconds."""
LINES = ("-", "--", "-.", ":")


def flow(spans: Sequence[Span], title: str) -> Axes:
    """How many have come and how many have gone, with the area between.

    The area is the time of all requests together, request by request or
    moment by moment.
    """
    axes = plots.new_axes(title, "time (s)", "requests so far")
    begins, ends = zip(*spans, strict=True)
    moments = sorted({*begins, *ends})
    came = [sum(t <= moment for t in begins) for moment in moments]
    gone = [sum(t <= moment for t in ends) for moment in moments]
    axes.fill_between(
        moments,
        came,
        gone,
        step="post",
        color=COLOURS[0],
        alpha=0.25,
        hatch="//",
        label="in the system",
    )
    for index, (name, count) in enumerate((("came", came), ("gone", gone))):
        axes.step(
            [moments[0], *moments],
            [0, *count],
            where="post",
            color=COLOURS[index],
            linestyle=LINES[index],
            label=name,
        )
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper left")
    return axes


def in_system(
    spans: Sequence[Span], windows: Mapping[str, Span], title: str
) -> Axes:
    """The number in the system over time, and windows as bars above it."""
    axes = plots.new_axes(title, "time (s)", "in the system")
    moments, numbers = steps(spans)
    axes.step(moments, numbers, where="post", color=COLOURS[0])
    axes.fill_between(
        moments, numbers, step="post", color=COLOURS[0], alpha=0.25
    )
    top = max(numbers)
    for index, (name, (begin, end)) in enumerate(windows.items(), 1):
        axes.barh(
            top * (1.05 + 0.13 * index),
            end - begin,
            left=begin,
            height=top * 0.1,
            color=COLOURS[index % len(COLOURS)],
            hatch=HATCHES[index % len(HATCHES)],
            alpha=0.5,
            label=name,
        )
    axes.set_ylim(0, top * (1.2 + 0.13 * len(windows)))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if windows:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def steps(spans: Sequence[Span]) -> tuple[list[float], list[int]]:
    """Moments, rising, and the number in the system from each one on."""
    events = [(begin, 1) for begin, _ in spans]
    events += [(end, -1) for _, end in spans]
    events.sort()
    return (
        [moment for moment, _ in events],
        list(accumulate(change for _, change in events)),
    )


def waits(
    computed: Mapping[str, Mapping[float, float]],
    runs: Mapping[str, Mapping[float, Sequence[float]]],
    title: str,
    ylabel: str,
) -> Axes:
    """Mean waits over the load: formulas as lines, each run as a point.

    `computed` has a wait, and `runs` the mean of each run, by load in per
    cent of capacity. Where there are several runs at a load, a bar is the
    95 % interval of what they are runs of. A run in which nobody waited has
    no place on the logarithmic scale.
    """
    axes = plots.new_axes(title, "load (% of capacity)", ylabel)
    axes.set_yscale("log")
    axes.set_ylim(_room(computed, runs))
    for index, (name, line) in enumerate(computed.items()):
        axes.plot(
            list(line),
            list(line.values()),
            LINES[index % len(LINES)],
            color=COLOURS[index],
            label=name,
            zorder=1,
        )
    for index, (name, seen) in enumerate(runs.items()):
        place = len(computed) + index
        style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)]}
        style |= {"marker": MARKERS[index]}
        for load, values in seen.items():
            _draw_runs(axes, load, values, style)
        axes.plot([], [], linestyle="none", label=name, **style)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(loc="upper left", fontsize="small")
    return axes


def _room(
    computed: Mapping[str, Mapping[float, float]],
    runs: Mapping[str, Mapping[float, Sequence[float]]],
) -> tuple[float, float]:
    """From below the lowest wait to above the highest."""
    waits = [wait for line in computed.values() for wait in line.values()]
    waits += [w for at in runs.values() for seen in at.values() for w in seen]
    return min(w for w in waits if w > 0) / 1.5, max(waits) * 1.5


def _draw_runs(
    axes: Axes, load: float, values: Sequence[float], style: dict[str, Any]
) -> None:
    """Each run, and the interval of their mean."""
    axes.plot(
        [load] * len(values),
        values,
        linestyle="none",
        markersize=5,
        alpha=0.5,
        **style,
    )
    interval = stats.mean_interval(values)
    if interval is not None:
        # An interval may reach below 0, which this scale has not.
        low = max(interval.low, axes.get_ylim()[0])
        axes.plot(
            [load] * 2,
            [low, interval.high],
            marker="_",
            markersize=14,
            color=style["color"],
        )


def intervals(
    panels: Mapping[str, Sequence[Interval]],
    truth: float,
    title: str,
    xlabel: str,
) -> Axes:
    """A row for each interval, and which of them hold the truth."""
    with plt.style.context(plots.STYLE):
        figure, grid = plt.subplots(
            1,
            len(panels),
            figsize=(7, 3.8),
            layout="constrained",
            sharex=True,
            squeeze=False,
        )
        grid = grid[0]
    colours = {True: COLOURS[0], False: COLOURS[1]}
    marks = {True: "|", False: "x"}
    for axes, (name, found) in zip(grid, panels.items(), strict=True):
        for row, each in enumerate(found):
            holds = each.low <= truth <= each.high
            middle = (each.low + each.high) / 2
            style: dict[str, Any] = {"color": colours[holds]}
            axes.plot([each.low, each.high], [row, row], **style)
            axes.plot(middle, row, marks[holds], markersize=5, **style)
        axes.axvline(truth, color="black", linewidth=1, linestyle="--")
        axes.set(title=name, xlabel=xlabel, yticks=[])
        axes.set_xlim(left=0)
    handles = [
        Line2D([], [], color=colours[holds], marker=marks[holds], label=label)
        for holds, label in ((True, "holds the truth"), (False, "misses it"))
    ]
    handles.append(
        Line2D([], [], color="black", linestyle="--", label="the truth")
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    figure.suptitle(title)
    return grid[0]


def within_bounds(
    panels: Mapping[str, plots.Series],
    bounds: Mapping[str, Mapping[int, float]],
    title: str,
    xlabel: str,
) -> Axes:
    """Observations over a count, with a bound in each panel."""
    axes = plots.lines(panels, title, xlabel)
    for each in plots.figure_of(axes).axes:
        bound = bounds[each.get_ylabel()]
        each.plot(
            list(bound),
            list(bound.values()),
            "--",
            color="black",
            label="bound",
        )
        seen = [
            value
            for series in panels[each.get_ylabel()].values()
            for values in series.values()
            for value in values
        ]
        each.set_ylim(0, 1.15 * max(*seen, *bound.values()))
        each.legend()
    return axes


def knees(
    times: Mapping[str, Mapping[float, float]],
    marks: Mapping[str, Span],
    title: str,
    ylabel: str,
) -> Axes:
    """Time in the system over the load, with a mark on each line.

    `times` by load in per cent of capacity; a mark is a load and a time.
    """
    axes = plots.new_axes(title, "load (% of capacity)", ylabel)
    with plt.style.context(plots.STYLE):
        for index, (name, line) in enumerate(times.items()):
            color = COLOURS[index]
            axes.plot(
                list(line),
                list(line.values()),
                LINES[index % len(LINES)],
                color=color,
                label=name,
            )
            axes.plot(
                *marks[name],
                MARKERS[index],
                color=color,
                markersize=9,
                label=f"{name}: one in the system",
            )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 12)
    axes.legend(loc="upper left", fontsize="small")
    return axes


def stacked(
    panels: Mapping[str, tuple[Sequence[float], Sequence[int]]],
    title: str,
    xlabel: str,
) -> Axes:
    """Steps over one time axis, a panel below the other; the first axes."""
    with plt.style.context(plots.STYLE):
        figure, grid = plt.subplots(
            len(panels),
            1,
            figsize=(7, 0.8 + 1.4 * len(panels)),
            layout="constrained",
            sharex=True,
            sharey=True,
            squeeze=False,
        )
    column: list[Axes] = list(grid[:, 0])
    for axes, (name, series) in zip(column, panels.items(), strict=True):
        axes.step(*series, where="post", color=COLOURS[0])
        axes.fill_between(*series, step="post", color=COLOURS[0], alpha=0.25)
        axes.set_title(name, fontsize="medium")
        axes.set_ylabel("requests")
    column[0].set_ylim(bottom=0)
    column[-1].set_xlabel(xlabel)
    figure.suptitle(title)
    return column[0]
