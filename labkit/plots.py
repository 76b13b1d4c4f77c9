"""Every chart of the course: one style, a caption, an alternative text.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

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
    for axis in (
        axes.xaxis.set_major_formatter,
        axes.xaxis.set_minor_formatter,
    ):
        axis(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes.legend(
        unique.values(), unique.keys(), loc="upper left", bbox_to_anchor=(1, 1)
    )
    return axes


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
