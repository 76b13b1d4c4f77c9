"""The pictures of a load test, each with a caption and a text instead."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.loadtest import metrics
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.records import Record

Picture = tuple[bytes, str, str]
"""PNG, caption, alternative text."""
MOST_TIME_LINES = 8


def pictures(found: Evidence) -> list[Picture]:
    """TTFT and ITL as ECDFs, and a time line for each configuration."""
    from labkit import load_plots, plots

    records = {
        each.name: [r for part in found.segments(each.name) for r in part]
        for each in found.plan.configurations
    }
    made = []
    for name, metric in (("TTFT", metrics.ttft_ms), ("ITL", metrics.itl_ms)):
        series = {
            configuration: metrics.pooled(metric, some)
            for configuration, some in records.items()
        }
        axes = load_plots.ecdfs(series, f"{name} by configuration", "ms")
        caption = (
            f"{name} of the requests that succeeded, every observation a step;"
            f" failed: {_failed(records)}."
        )
        alt = f"{name}, share of observations up to each time. " + "; ".join(
            _median(configuration, values)
            for configuration, values in series.items()
        )
        made.append((plots.png(plots.figure_of(axes)), caption, alt))
    for each in found.plan.configurations[:MOST_TIME_LINES]:
        segments = found.segments(each.name)
        if segments:
            made.append(_time_line(each.name, segments[-1]))
    return made


def _time_line(name: str, records: Sequence[Record]) -> Picture:
    from labkit import load_plots, plots

    axes = load_plots.requests_over_time(records, name)
    shown = min(len(records), load_plots.MOST_ROWS)
    caption = (
        f"{name}: {shown} of {len(records)} requests of the last segment, by"
        " the client's clock and the server's stamps."
    )
    alt = (
        f"A bar for each of {shown} requests in order of sending, from sent"
        " to the last token, with a mark for each token."
    )
    return plots.png(plots.figure_of(axes)), caption, alt


def _failed(records: dict[str, list[Record]]) -> str:
    counts = [
        f"{sum(not r.ok for r in some)} of {len(some)} ({name})"
        for name, some in records.items()
    ]
    return ", ".join(counts)


def _median(name: str, values: Sequence[float]) -> str:
    middle = metrics.percentile(values, 50)
    if middle is None:
        return f"{name}: no observation"
    return f"{name}: median {middle:.1f} ms of {len(values)}"
