"""Charts of load tests, in the course's style.

matplotlib is loaded with this module; import it where a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from labkit import plots
from labkit.loadtest import metrics
from labkit.loadtest.records import Record

LINES = ("-", "--", ":", "-.")
MOST_ROWS = 40
"""More rows than this are too thin to tell apart."""


def requests_over_time(records: Sequence[Record], title: str) -> Axes:
    """A bar a request, in order of sending: queue, prefill, decode; a mark
    a token.

    At most MOST_ROWS requests, the first ones. All must be of one segment.
    Where the server's stamps are not on the client's clock, what comes
    before the first token is one span.
    """
    ordered = sorted(records, key=lambda record: record.sent_ns)[:MOST_ROWS]
    origin = ordered[0].sent_ns if ordered else 0

    def seconds(time_ns: int) -> float:
        return (time_ns - origin) / 1e9

    tracks = {}
    for record in ordered:
        spans = [(k, seconds(a), seconds(b)) for k, a, b in _phases(record)]
        moments = [seconds(chunk.time_ns) for chunk in metrics.chunks(record)]
        failed = "" if record.ok else f" ({record.failure})"
        tracks[record.request + failed] = plots.Track(spans, moments)
    return plots.timeline(
        tracks, title, "time since the first was sent (s)", moment="token"
    )


def _phases(record: Record) -> Iterator[tuple[str, int, int]]:
    """What a request went through: name, start and end, on one clock."""
    seen = metrics.chunks(record)
    if not seen:
        yield "no token", record.sent_ns, record.end_ns
        return
    first, last = seen[0].time_ns, seen[-1].time_ns
    queued, start = record.queued_ns, record.start_ns
    if (
        queued is not None
        and start is not None
        and (record.sent_ns <= queued <= start <= first)
    ):
        yield "on the way", record.sent_ns, queued
        yield "queue", queued, start
        yield "prefill", start, first
    else:
        yield "until the first token", record.sent_ns, first
    yield "decode", first, last


def ecdfs(
    series: Mapping[str, Sequence[float]], title: str, xlabel: str
) -> Axes:
    """The share of observations up to each value, a line for each series.

    Every observation is a step. Series without one are left out.
    """
    axes = plots.new_axes(title, xlabel, "share of observations up to here")
    with plt.style.context(plots.STYLE):
        for index, (name, values) in enumerate(series.items()):
            if values:
                axes.ecdf(
                    list(values),
                    label=f"{name} (n = {len(values)})",
                    color=plots.COLOURS[index % len(plots.COLOURS)],
                    linestyle=LINES[index // len(plots.COLOURS) % len(LINES)]
                    if len(series) > len(plots.COLOURS)
                    else LINES[index % len(LINES)],
                )
    axes.set_ylim(0, 1)
    if axes.lines:
        axes.legend(fontsize="small")
    return axes
