"""Rates over a run: throughput, goodput, peak, number in flight, laws.

Pure functions of records, with the rules of `metrics`. A window goes from
the first send to the last completion of the requests that succeeded; where
a run has several segments, sum tokens and windows, never average rates.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from labkit.loadtest import metrics
from labkit.loadtest.records import Record

Span = tuple[int, int]
"""Begin and end of a request in a system, in ns."""
SECOND_NS = 1_000_000_000
"""Length of the interval in which the peak is counted."""


def window_s(records: Sequence[Record]) -> float | None:
    """Last completion minus first send, in seconds.

    Completion is the last token's arrival. The first send is that of all
    requests, failed ones too. None where nothing succeeded.
    """
    ends = [
        seen[-1].time_ns
        for record in records
        if record.ok and (seen := metrics.chunks(record))
    ]
    if not ends:
        return None
    return (max(ends) - min(record.sent_ns for record in records)) / 1e9


def output_tokens(records: Sequence[Record]) -> int:
    """New tokens of the requests that succeeded."""
    return sum(metrics.token_count(r) or 0 for r in records if r.ok)


def output_throughput(records: Sequence[Record]) -> float | None:
    """Output tokens per second of the window."""
    return _per_s(output_tokens(records), window_s(records))


def request_throughput(records: Sequence[Record]) -> float | None:
    """Requests that succeeded per second of the window."""
    return _per_s(sum(r.ok for r in records), window_s(records))


def peak_tokens_per_s(records: Sequence[Record]) -> int | None:
    """Most tokens that arrived within one second, wherever it begins.

    The second is half open, [t, t + 1 s). Tokens of failed requests count:
    they crossed the wire.
    """
    moments = _tokens(records)
    if not moments:
        return None
    best = inside = first = 0
    for time_ns, tokens in moments:
        inside += tokens
        while moments[first][0] <= time_ns - SECOND_NS:
            inside -= moments[first][1]
            first += 1
        best = max(best, inside)
    return best


def mean_tokens_per_s(records: Sequence[Record]) -> float | None:
    """Mean over the whole seconds that cover the arrivals.

    This is the mean that the peak is never below: the seconds that cover
    the arrivals cannot all hold less than their mean. Throughput divides by
    its window to the nanosecond, and in a window of part of a second it
    is a rate that no second had.
    """
    moments = _tokens(records)
    if not moments:
        return None
    span_ns = moments[-1][0] - moments[0][0]
    seconds = span_ns // SECOND_NS + 1
    return sum(tokens for _, tokens in moments) / seconds


def _tokens(records: Sequence[Record]) -> list[tuple[int, int]]:
    return sorted(
        (chunk.time_ns, chunk.tokens)
        for record in records
        for chunk in metrics.chunks(record)
    )


def _per_s(amount: float, seconds: float | None) -> float | None:
    return amount / seconds if seconds else None


# Objectives -----------------------------------------------------------------


@dataclass(frozen=True)
class Objectives:
    """Bounds in ms, each inclusive; None asks for nothing."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    ttft_from_schedule_ms: float | None = None


@dataclass(frozen=True)
class Goodput:
    """Requests that met every objective, of all that were sent."""

    met: int
    total: int
    share: float | None
    per_s: float | None


def met(record: Record, objectives: Objectives) -> bool:
    """Whether a request succeeded within every bound.

    A value that is undefined misses its bound, but an answer of one token
    has no TPOT and is not judged on it.
    """
    if not record.ok:
        return False
    one = metrics.token_count(record) == 1
    judged = (
        (metrics.ttft_ms(record), objectives.ttft_ms),
        (metrics.tpot_ms(record), None if one else objectives.tpot_ms),
        (metrics.e2e_ms(record), objectives.e2e_ms),
        (
            metrics.ttft_from_schedule_ms(record),
            objectives.ttft_from_schedule_ms,
        ),
    )
    return all(
        bound is None or (value is not None and value <= bound)
        for value, bound in judged
    )


def goodput(records: Sequence[Record], objectives: Objectives) -> Goodput:
    """Over the window of all; failures count in `total`."""
    good = sum(met(record, objectives) for record in records)
    share = good / len(records) if records else None
    return Goodput(good, len(records), share, _per_s(good, window_s(records)))


# In flight ------------------------------------------------------------------


def server_spans(records: Sequence[Record]) -> list[Span]:
    """Queued to done by the server's own stamps, where it sends both."""
    found = []
    for record in records:
        done = [a.server_ns for a in record.arrivals if a.kind == "done"]
        if record.queued_ns is not None and done and done[-1] is not None:
            found.append((record.queued_ns, done[-1]))
    return found


def client_spans(records: Sequence[Record]) -> list[Span]:
    """Sent to the end of the stream, of all requests."""
    return [(record.sent_ns, record.end_ns) for record in records]


def mean_in_flight(spans: Sequence[Span]) -> float | None:
    """Time integral of the number in the system / the time it covers.

    From the first begin to the last end, counted event by event.
    """
    steps = list(_in_flight(spans))
    if not steps or steps[-1][0] == steps[0][0]:
        return None
    area = sum(n * (after - t) for (t, n), (after, _) in pairwise(steps))
    return area / (steps[-1][0] - steps[0][0])


def peak_in_flight(spans: Sequence[Span]) -> int:
    """The most requests that were in the system at once."""
    return max((count for _, count in _in_flight(spans)), default=0)


def rate_times_time(spans: Sequence[Span]) -> float | None:
    """Rate times mean time in system over the same window (Little 1961).

    The other side of the law that `violations` asserts; what is reported
    as in flight is `mean_in_flight`.
    """
    if not spans:
        return None
    window = max(end for _, end in spans) - min(begin for begin, _ in spans)
    if not window:
        return None
    mean_time = sum(end - begin for begin, end in spans) / len(spans)
    return len(spans) / window * mean_time


def _in_flight(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """(moment, number in the system from then on), moments rising."""
    # An end comes before a begin at the same moment.
    events = [(begin, 1) for begin, _ in spans]
    events += [(end, -1) for _, end in spans]
    inside = 0
    for moment, change in sorted(events):
        inside += change
        yield moment, inside
