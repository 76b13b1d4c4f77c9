"""Charts of lesson 11: when something could be used, and how often.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from labkit import plots
from labkit.load_plots import LINES
from labkit.usable import Outcome, share_within

Moments = Mapping[str, Sequence[float | None]]
"""By milestone: when it was reached in each run, None for never."""


def milestones(answers: Mapping[str, Moments], title: str) -> Axes:
    """A row for each answer, a mark for each milestone in each run; in ms.

    What was never reached in any run is named right of the row's line. At
    most six milestones: each has its own colour and marker.
    """
    axes = plots.new_axes(title, "time since the request was sent (ms)", "")
    figure = plots.figure_of(axes)
    figure.set_size_inches(7, 1.8 + 0.5 * len(answers))
    names = list(dict.fromkeys(n for row in answers.values() for n in row))
    for height, row in enumerate(answers.values()):
        seen = [at for times in row.values() for at in times if at is not None]
        end = max(seen, default=0.0)
        axes.plot([0, end], [height, height], color="grey", zorder=1)
        for name, times in row.items():
            place = names.index(name)
            there = [at for at in times if at is not None]
            axes.plot(
                there,
                [height] * len(there),
                plots.MARKERS[place],
                color=plots.COLOURS[place],
                fillstyle="none",
                label=name,
            )
        never = [n for n, times in row.items() if not any(times)]
        if never:
            axes.annotate(
                "never: " + ", ".join(never),
                (end, height),
                (10, 0),
                textcoords="offset points",
                va="center",
            )
    axes.set_yticks(range(len(answers)), list(answers))
    axes.set_ylim(len(answers) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    _legend_above(axes, names)
    return axes


def _legend_above(axes: Axes, names: Sequence[str]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    by_name = dict(zip(labels, handles, strict=True))
    found = [name for name in names if name in by_name]
    plots.figure_of(axes).legend(
        [by_name[name] for name in found],
        found,
        loc="outside lower center",
        ncols=3,
        fontsize="small",
    )


def share_usable(ways: Mapping[str, Sequence[Outcome]], title: str) -> Axes:
    """The share of tasks with a usable answer by each moment; in s.

    A step for each task. A line that stays below 1 has tasks that never
    came to one; the legend says how many did.
    """
    axes = plots.new_axes(
        title, "time since the task began (s)", "share usable by then"
    )
    spent = [each.spent_ms for tasks in ways.values() for each in tasks]
    latest = 1.05 * max(spent, default=1.0)
    with plt.style.context(plots.STYLE):
        for place, (name, tasks) in enumerate(ways.items()):
            times = sorted(
                t.usable_ms for t in tasks if t.usable_ms is not None
            )
            moments = [0.0, *times, latest]
            shares = [share_within(tasks, at) or 0.0 for at in moments]
            axes.plot(
                [at / 1e3 for at in moments],
                shares,
                drawstyle="steps-post",
                linestyle=LINES[place % len(LINES)],
                marker=plots.MARKERS[place],
                markevery=slice(1, -1),
                color=plots.COLOURS[place],
                label=f"{name} ({len(times)} of {len(tasks)})",
            )
    axes.set_ylim(-0.05, 1.05)
    axes.set_xlim(0, latest / 1e3)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.22),
        ncols=2,
        fontsize="small",
    )
    return axes
