"""Charts of lesson 10: goodput over the rate, a storm, a search.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes

from labkit import plots, stats
from labkit.loadtest import metrics
from labkit.loadtest.records import Record
from labkit.loadtest.sweep import Search, Verdict
from labkit.plots import COLOURS, MARKERS

Span = tuple[float, float | None]
"""Begin and end of a request in a server, in seconds; None: still in it."""
LINES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)))
SPREAD = (5, 95)
"""Percentiles between which a band lies."""
VERDICTS: Mapping[Verdict, str] = {
    "meets": "clearly meets it",
    "undecided": "neither",
    "misses": "clearly misses it",
}


def over_rate(
    measured: Mapping[str, Mapping[float, float]],
    simulated: Mapping[str, Mapping[float, Sequence[float]]],
    capacity_per_s: float,
    title: str,
) -> Axes:
    """Requests per second of several kinds over the offered rate.

    Each measured run is a point, the highest of its series ringed. A line
    goes through the medians of simulated runs of the same name, and a band
    from the 5th to the 95th percentile.
    """
    axes = plots.new_axes(title, "offered (requests/s)", "requests/s")
    for index, (name, runs) in enumerate(measured.items()):
        colour = COLOURS[index]
        style: dict[str, Any] = {"color": colour, "marker": MARKERS[index]}
        axes.plot(*_pairs(runs), linestyle="none", label=name, **style)
        _band(axes, simulated.get(name, {}), colour, LINES[index])
        top = max(runs, key=lambda rate: runs[rate])
        axes.plot(
            [top],
            [runs[top]],
            "o",
            fillstyle="none",
            markersize=15,
            color=colour,
        )
    axes.axvline(capacity_per_s, color="grey", linestyle=":", label="capacity")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def _band(
    axes: Axes,
    runs: Mapping[float, Sequence[float]],
    colour: str,
    line: Any,
) -> None:
    known = {rate: values for rate, values in sorted(runs.items()) if values}
    low, middle, high = (
        [stats.percentile(values, q) or 0.0 for values in known.values()]
        for q in (SPREAD[0], 50, SPREAD[1])
    )
    axes.fill_between([*known], low, high, color=colour, alpha=0.15)
    axes.plot([*known], middle, color=colour, linestyle=line, linewidth=1)


def in_server(
    spans: Mapping[str, Sequence[Span]], title: str, xlabel: str
) -> Axes:
    """How many requests a server has, waiting or begun, over time.

    A line for each series of spans.
    """
    axes = plots.new_axes(title, xlabel, "requests in the server")
    for index, (name, own) in enumerate(spans.items()):
        events = [(begin, 1) for begin, _ in own]
        events += [(end, -1) for _, end in own if end is not None]
        events.sort()
        numbers = list(accumulate(change for _, change in events))
        axes.step(
            [t for t, _ in events],
            numbers,
            where="post",
            color=COLOURS[index],
            linestyle=LINES[index],
            label=name,
        )
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def search(
    found: Search, known: Mapping[str, float], title: str, xlabel: str
) -> Axes:
    """The share of every probe with its interval, and where they leave it.

    `known` has rates, by name, that come from elsewhere: they are upright
    lines. What lies between the search's two ends is shaded.
    """
    axes = plots.new_axes(title, xlabel, "share that is good")
    for index, (verdict, label) in enumerate(VERDICTS.items()):
        own = [
            probe
            for probe in found.probes
            if probe.verdict(found.goal, found.confidence) == verdict
        ]
        ends = [probe.interval(found.confidence) for probe in own]
        pairs = list(zip(own, ends, strict=True))
        axes.errorbar(
            [probe.rate_per_s for probe in own],
            [probe.share for probe in own],
            [
                [max(0.0, probe.share - end.low) for probe, end in pairs],
                [max(0.0, end.high - probe.share) for probe, end in pairs],
            ],
            fmt=MARKERS[index],
            color=COLOURS[index],
            capsize=4,
            label=label,
        )
    axes.axhline(found.goal, color="black", linewidth=1, label="goal")
    if found.low is not None and found.high is not None:
        axes.axvspan(
            found.low, found.high, color="grey", alpha=0.2, label="found"
        )
    for index, (name, rate) in enumerate(known.items(), len(VERDICTS)):
        axes.axvline(
            rate, color=COLOURS[index], linestyle=LINES[index], label=name
        )
    axes.set_ylim(0, 1.02)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def over_objective(
    runs: Mapping[float, Sequence[Record]],
    bound_ms: float,
    title: str,
) -> Axes:
    """The share of all requests whose TTFT is within a bound, by rate.

    Failed requests are among all, so that a line ends below 1 where there
    were some. `bound_ms` is marked.
    """
    axes = plots.new_axes(title, "objective for TTFT (ms)", "share that meets")
    for index, rate in enumerate(sorted(runs)):
        records = runs[rate]
        values = sorted(metrics.pooled(metrics.ttft_ms, records))
        shares = [(k + 1) / len(records) for k in range(len(values))]
        axes.step(
            [0.0, *values],
            [0.0, *shares],
            where="post",
            color=COLOURS[index % len(COLOURS)],
            linestyle=LINES[index % len(LINES)],
            label=f"{rate:.1f} requests/s",
        )
    axes.axvline(bound_ms, color="grey", linestyle=":", label="this lesson's")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def _pairs(runs: Mapping[float, float]) -> tuple[list[float], list[float]]:
    ordered = sorted(runs)
    return ordered, [runs[rate] for rate in ordered]
