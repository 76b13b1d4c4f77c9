"""Every chart of the course: one style, a caption, an alternative text.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from labkit import stats
from labkit.comparison import Comparison, Row

STYLE: list[str | dict[str, Any]] = [
    "petroff6",
    {"axes.grid": True, "grid.alpha": 0.3},
]
COLOURS: tuple[str, ...] = tuple(
    mpl.style.library["petroff6"]["axes.prop_cycle"].by_key()["color"]
)
"""Kept apart by colour-blind readers (M. A. Petroff, 2021)."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""One marker a series, so that colour alone never tells them apart."""
HATCHES = ("", "//", "..", "xx", "\\\\", "oo")
"""One pattern a kind of bar, for the same reason."""
DPI = 100


def new_axes(title: str, xlabel: str, ylabel: str) -> Axes:
    """Axes of a new figure in the course's style; labels carry units."""
    with plt.style.context(STYLE):
        _, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return axes


def png(figure: Figure) -> bytes:
    """The figure as PNG, the same bytes for the same picture; closes it."""
    buffer = io.BytesIO()
    # Without a software tag a new library version alone changes nothing.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()


def figure_of(axes: Axes) -> Figure:
    """The figure that axes stand in; TypeError where there is none."""
    figure = axes.get_figure()
    if not isinstance(figure, Figure):
        raise TypeError("these axes belong to no figure of their own")
    return figure


def show(axes: Axes, caption: str, alt: str) -> None:
    """Display a figure with its caption below and its alternative text.

    JupyterLab ignores alternative text in metadata, so the sentence is the
    plain-text form of the output as well.
    """
    from IPython.display import display

    picture = base64.b64encode(png(figure_of(axes))).decode()
    display(
        {"image/png": picture, "text/plain": alt},
        raw=True,
        metadata={"image/png": {"alt": alt}},
    )
    display({"text/markdown": f"*{caption}*", "text/plain": caption}, raw=True)


@dataclass(frozen=True)
class Served:
    """When one request arrived, was begun and was done, in seconds."""

    sent: float
    began: float
    done: float


def served(answer: Mapping[str, Any]) -> Served:
    """The times of one answer, as its client has them.

    `answer` has `sent` and `got` in nanoseconds of the client's clock and
    the server's `seconds` of work. What lies between is taken as waiting in
    line: loopback adds a few milliseconds to it.
    """
    done = answer["got"] / 1e9
    return Served(answer["sent"] / 1e9, done - answer["seconds"], done)


def staircase(groups: Mapping[str, Sequence[Served]], title: str) -> Axes:
    """One bar a request, in groups: waiting in a pale tone, work in full."""
    axes = new_axes(title, "time since the group was sent (s)", "request")
    row, labels = 0, []
    for index, (name, requests) in enumerate(groups.items()):
        first = min(request.sent for request in requests)
        for number, request in enumerate(
            sorted(requests, key=lambda r: r.began), start=1
        ):
            _bar(axes, row, request, first, COLOURS[index])
            labels.append(f"{name}: {number}")
            row += 1
        row += 1
        labels.append("")
    axes.set_yticks(range(row), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    return axes


def _bar(
    axes: Axes, row: int, request: Served, first: float, color: str
) -> None:
    waited = request.began - request.sent
    worked = request.done - request.began
    left = request.sent - first
    axes.barh(row, waited, left=left, color=color, alpha=0.25, hatch="//")
    axes.barh(row, worked, left=left + waited, color=color)


def sweep(
    observations: Mapping[int, Sequence[float]],
    title: str,
    xlabel: str,
    ylabel: str,
) -> Axes:
    """Every observation at each length, and a line through the medians."""
    axes = new_axes(title, xlabel, ylabel)
    for length, values in observations.items():
        axes.plot(
            [length] * len(values),
            values,
            "o",
            color=COLOURS[0],
            alpha=0.6,
            zorder=3,
        )
    lengths = list(observations)
    medians = [stats.median(values) for values in observations.values()]
    axes.plot(
        lengths, medians, "s--", color=COLOURS[1], label="median", zorder=1
    )
    axes.set_xticks(lengths)
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def comparison(made: Comparison) -> Axes:
    """Every quantity that is a number relative to this run's value."""
    rows = [row for row in made.rows if _can_be_drawn(row)]
    axes = new_axes(
        f"Lesson {made.lesson}: relative to this run",
        "value / this run's value (logarithmic)",
        "",
    )
    figure_of(axes).set_size_inches(7, 1.6 + 0.45 * len(rows))
    axes.axvline(1, color="black", linewidth=1)
    keys = dict.fromkeys(beside.key for row in rows for beside in row.against)
    styles = {
        key: {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
        }
        for index, key in enumerate(("yours", "predicted", *keys))
    }
    for height, row in enumerate(rows):
        _draw_row(axes, height, row, styles)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_xscale("log")
    _label_logarithmic(axes.xaxis)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _legend_beside(axes)
    return axes


def _label_logarithmic(axis: Axis) -> None:
    """Labels that have room beside each other on a logarithmic axis.

    They stand at 1, 2 and 5 of each decade, over more than two decades at 1
    alone, and within less than a factor of five, where that would leave one
    or none, at even steps.
    """
    low, high = axis.get_view_interval()
    locator: Locator
    if high < 5 * low:
        locator = MaxNLocator(nbins=5, steps=(1, 2, 5, 10))
    elif high < 100 * low:
        locator = LogLocator(subs=(1, 2, 5))
    else:
        locator = LogLocator(subs=(1,), numticks=6)
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _can_be_drawn(row: Row) -> bool:
    """Whether a quantity is a positive number that others have as well."""
    number = isinstance(row.value, (int, float)) and row.value > 0
    judged = row.expected == "must match"
    return number and not judged and bool(row.against or row.predicted)


def _draw_row(
    axes: Axes, height: int, row: Row, styles: Mapping[str, dict[str, str]]
) -> None:
    low, high = row.value, row.value
    if row.spread is not None:
        low, high = row.spread.low, row.spread.high
    elif row.interval is not None:
        low, high = row.interval.low, row.interval.high
    ends = [low / row.value, high / row.value]
    axes.plot(ends, [height, height], color=styles["yours"]["color"])
    points = {"yours": row.value, "predicted": row.predicted}
    points |= {beside.key: beside.value for beside in row.against}
    for key, value in points.items():
        if isinstance(value, (int, float)) and value > 0:
            axes.plot(
                value / row.value,
                height,
                linestyle="none",
                label=key,
                **styles[key],  # type: ignore[arg-type]  # colour and marker
            )


def in_order(
    series: Mapping[str, Sequence[float]], title: str, xlabel: str, ylabel: str
) -> Axes:
    """Every observation of each series in the order in which it was made."""
    axes = new_axes(title, xlabel, ylabel)
    with plt.style.context(STYLE):
        for index, (name, values) in enumerate(series.items()):
            numbers = range(1, len(values) + 1)
            axes.plot(
                numbers,
                values,
                MARKERS[index],
                linestyle=":",
                color=COLOURS[index],
                label=name,
            )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(series) > 1:
        axes.legend()
    return axes


def measured_and_computed(  # noqa: PLR0913 - three texts and a scale
    measured: Mapping[str, Mapping[int, Sequence[float]]],
    computed: Mapping[str, Mapping[int, float]],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    scale: Literal["linear", "log"] = "linear",
) -> Axes:
    """Every observation as a point, and what formulas give as lines.

    `measured` has observations by series and length, `computed` one number;
    a line that is named like a series has its colour and no legend entry.
    On logarithmic axes, where a power is a straight line, all must be above
    0, and lengths are marked at powers of two.
    """
    axes = new_axes(title, xlabel, ylabel)
    for index, (name, series) in enumerate(measured.items()):
        pairs = [(n, value) for n, seen in series.items() for value in seen]
        style: dict[str, Any] = {"marker": MARKERS[index], "linestyle": "none"}
        style |= {"color": COLOURS[index], "alpha": 0.6}
        _draw_pairs(axes, pairs, label=name, **style)
    dashes = ("--", "-.", ":", "-")
    for index, (name, line) in enumerate(computed.items()):
        style = {"linestyle": dashes[index % len(dashes)], "zorder": 1}
        own = name not in measured
        place = len(measured) + index if own else [*measured].index(name)
        style["color"] = COLOURS[place % len(COLOURS)]
        style["label"] = name if own else "_nolegend_"
        _draw_pairs(axes, [*line.items()], **style)
    if scale == "log":
        axes.set_yscale("log")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
        _label_logarithmic(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def _draw_pairs(
    axes: Axes, pairs: Sequence[tuple[float, float]], **style: Any
) -> None:
    axes.plot([x for x, _ in pairs], [y for _, y in pairs], **style)


def ranked(
    groups: Mapping[str, Mapping[str, float]], title: str, xlabel: str
) -> Axes:
    """One value a name, from small to large, on a logarithmic axis.

    Names may be in several groups, each with its own colour and marker; all
    values must be above 0.
    """
    axes = new_axes(title, xlabel, "")
    order = sorted(
        (value, name, index)
        for index, group in enumerate(groups.values())
        for name, value in group.items()
    )
    figure_of(axes).set_size_inches(7, 1.4 + 0.25 * len(order))
    axes.set_xscale("log")
    for index, label in enumerate(groups):
        own = [(v, y) for y, (v, _, i) in enumerate(order) if i == index]
        style = {"marker": MARKERS[index], "color": COLOURS[index]}
        _draw_pairs(axes, own, linestyle="none", label=label, **style)
    axes.set_yticks(range(len(order)), [name for _, name, _ in order])
    _label_logarithmic(axes.xaxis)
    axes.legend()
    return axes


def strips(
    observations: Mapping[str, Sequence[float]],
    marks: Mapping[str, Mapping[str, float]],
    title: str,
    xlabel: str,
) -> Axes:
    """Every observation of each condition in a row, with single marks.

    `marks` has, under the name that the legend gives, one value for each of
    some conditions: what was computed, or a run that is not like the others.
    """
    axes = new_axes(title, xlabel, "")
    figure_of(axes).set_size_inches(7, 1.4 + 0.4 * len(observations))
    rows = {name: row for row, name in enumerate(observations)}
    seen = [(x, rows[n]) for n, values in observations.items() for x in values]
    style: dict[str, Any] = {"linestyle": "none", "color": COLOURS[0]}
    _draw_pairs(axes, seen, marker="o", alpha=0.6, label="each run", **style)
    for index, (label, values) in enumerate(marks.items(), start=1):
        own = [(x, rows[name]) for name, x in values.items()]
        style |= {"color": COLOURS[index], "marker": MARKERS[index]}
        style |= {"fillstyle": "none", "markersize": 9}
        _draw_pairs(axes, own, label=label, **style)
    axes.set_yticks(list(rows.values()), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.legend()
    return axes


Series = Mapping[str, Mapping[int, Sequence[float]]]
"""By name and length: every observation."""


def lines(
    panels: Mapping[str, Series],
    title: str,
    xlabel: str,
    *,
    logarithmic: bool = False,
) -> Axes:
    """Every observation of several series, and lines through the medians.

    One panel beside another for each label of a y axis; returns the axes of
    the first. On a `logarithmic` y axis values must be above 0.
    """
    figure, grid = _in_a_row(len(panels), (7, 3.6))
    for axes, (ylabel, series) in zip(grid, panels.items(), strict=True):
        axes.set(xlabel=xlabel, ylabel=ylabel)
        for index, (name, seen) in enumerate(series.items()):
            _draw_line(axes, name, seen, COLOURS[index], MARKERS[index])
        lengths = sorted({n for seen in series.values() for n in seen})
        if len(lengths) <= 6:
            axes.set_xticks(lengths)
        if logarithmic:
            axes.set_yscale("log")
            _label_logarithmic(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
        axes.legend()
    if len(grid) == 1:
        grid[0].set_title(title)
    else:
        figure.suptitle(title)
    return grid[0]


def _in_a_row(
    count: int, size: tuple[float, float], *, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure in the course's style with axes from left to right."""
    with plt.style.context(STYLE):
        figure, grid = plt.subplots(
            1,
            count,
            figsize=size,
            layout="constrained",
            squeeze=False,
            sharey=share_y,
        )
    return figure, list(grid[0])


def _draw_line(
    axes: Axes,
    name: str,
    seen: Mapping[int, Sequence[float]],
    color: str,
    marker: str,
) -> None:
    pairs = [(n, value) for n, values in seen.items() for value in values]
    medians = [(n, stats.median(values)) for n, values in seen.items()]
    _draw_pairs(axes, medians, color=color, linewidth=1, zorder=1)
    points: dict[str, Any] = {"marker": marker, "linestyle": "none"}
    _draw_pairs(axes, pairs, color=color, alpha=0.7, label=name, **points)


def attention(
    weights: Mapping[str, Sequence[Sequence[float]]],
    tokens: Sequence[str],
    title: str,
) -> Axes:
    """One heat map a head, of how much each token looks at which.

    `weights` has a square matrix by the head's name: rows are queries and
    columns keys. What lies above the diagonal is left blank.
    """
    import numpy as np
    import seaborn as sns

    count = len(weights)
    size = (0.9 + 2.7 * count, 3.7)
    figure, grid = _in_a_row(count, size, share_y=True)
    future = np.triu(np.ones((len(tokens), len(tokens)), dtype=bool), k=1)
    for axes, (name, matrix) in zip(grid, weights.items(), strict=True):
        sns.heatmap(
            np.asarray(matrix),
            mask=future,
            ax=axes,
            cmap="viridis_r",
            vmin=0,
            vmax=1,
            square=True,
            cbar=axes is grid[-1],
            cbar_kws={"label": "share of attention", "shrink": 0.7},
            xticklabels=list(tokens),
            yticklabels=list(tokens),
        )
        axes.set(title=name, xlabel="key")
        _as_a_heat_map(axes)
    grid[0].set_ylabel("query")
    figure.suptitle(title)
    return grid[0]


def changes(
    apart: Sequence[Sequence[float]], tokens: Sequence[str], title: str
) -> Axes:
    """How far entries lie apart, by layer and position, logarithmic.

    Entries that did not change (0) are left blank.
    """
    import numpy as np
    import seaborn as sns
    from matplotlib.colors import LogNorm

    axes = new_axes(title, "", "")
    found = np.asarray(apart)
    changed = found[found > 0]
    scale: dict[str, Any] = {"vmin": 0, "vmax": 1}
    if changed.size:
        scale = {"norm": LogNorm(changed.min(), changed.max())}
    sns.heatmap(
        np.where(found > 0, found, np.nan),
        ax=axes,
        cmap="viridis_r",
        cbar_kws={"label": "largest change"},
        xticklabels=[f"{n} {token}" for n, token in enumerate(tokens)],
        yticklabels=5,
        **scale,
    )
    axes.set(xlabel="position", ylabel="layer")
    _as_a_heat_map(axes)
    for spine in axes.spines.values():
        spine.set_visible(True)
    return axes


def _as_a_heat_map(axes: Axes) -> None:
    """Small labels, those of columns upright, and no grid on the cells."""
    axes.grid(visible=False)
    axes.tick_params(labelsize=8, labelrotation=0)
    axes.tick_params(axis="x", labelrotation=90)


@dataclass(frozen=True)
class Track:
    """One row of a time line: what lasted, and what happened at a moment.

    `spans` are a kind, a start and an end; `moments` are times. All in the
    unit that the axis is labelled with.
    """

    spans: Sequence[tuple[str, float, float]] = ()
    moments: Sequence[float] = ()


def timeline(
    tracks: Mapping[str, Track], title: str, xlabel: str, moment: str = ""
) -> Axes:
    """A row for each track: a bar for each span, a mark for each moment.

    Spans of one kind have one colour and one hatch in every row; `moment`
    is what the legend calls the marks.
    """
    axes = new_axes(title, xlabel, "")
    figure_of(axes).set_size_inches(7, 1.6 + 0.4 * len(tracks))
    kinds = list(
        dict.fromkeys(k for t in tracks.values() for k, *_ in t.spans)
    )
    for row, track in enumerate(tracks.values()):
        for kind, start, end in track.spans:
            place = kinds.index(kind)
            axes.barh(
                row,
                end - start,
                left=start,
                height=0.6,
                color=COLOURS[place % len(COLOURS)],
                hatch=HATCHES[place % len(HATCHES)],
                alpha=0.5,
                label=kind,
            )
        marks: dict[str, Any] = {"marker": "|", "markersize": 12}
        marks |= {"color": "black", "linestyle": "none", "label": moment}
        _draw_pairs(axes, [(at, row) for at in track.moments], **marks)
    axes.set_yticks(range(len(tracks)), list(tracks))
    axes.set_ylim(len(tracks) - 0.5, -0.5)
    if axes.get_xlim()[1] > 0:
        axes.set_xlim(left=min(0, axes.dataLim.x0))
    axes.grid(visible=False, axis="y")
    _legend_beside(axes)
    return axes


def _legend_beside(axes: Axes) -> None:
    """Each label once, right of the axes; nothing where there is none."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if unique:
        axes.legend(
            unique.values(),
            unique.keys(),
            loc="upper left",
            bbox_to_anchor=(1, 1),
        )
