"""The metrics of the course, each defined once, from records.

Pure functions. Times are in the unit of the name; what is undefined is None
(or an empty list), never 0. A failed request keeps the values that it has,
and `pooled` leaves it out of the latencies. Standard library only.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from labkit.errors import LabError
from labkit.loadtest.records import Record

BURST_GAP_MS = 1.0
"""Chunks closer than this are one burst."""
BURST_SHARE = 0.9
"""An answer with this share of its tokens in one burst was not streamed."""
FIRST_TAIL_PERCENTILE = 99.0
"""From here on a percentile needs an observation beyond it."""


@dataclass(frozen=True)
class Chunk:
    """Tokens that left the socket at one moment."""

    time_ns: int
    tokens: int


def chunks(record: Record) -> list[Chunk]:
    """The tokens of a request by the moment of their arrival."""
    found: list[Chunk] = []
    for arrival in record.arrivals:
        if arrival.kind != "token":
            continue
        tokens = arrival.tokens
        if found and found[-1].time_ns == arrival.time_ns:
            tokens += found.pop().tokens
        found.append(Chunk(arrival.time_ns, tokens))
    return found


def token_count(record: Record) -> int | None:
    """New tokens: the server's count, or what arrived if it gave none.

    None when it gave none and nothing arrived.
    """
    if record.new_tokens is not None:
        return record.new_tokens
    return _tokens(chunks(record)) or None


# One request ----------------------------------------------------------------


def ttft_ms(record: Record) -> float | None:
    """First token's arrival minus sent; a new connection is inside it."""
    return _first_after_ms(record, record.sent_ns)


def ttft_from_schedule_ms(record: Record) -> float | None:
    """First token's arrival minus due; None in a closed loop."""
    return _first_after_ms(record, record.due_ns)


def ttft_after_connect_ms(record: Record) -> float | None:
    """First token's arrival minus connected; from sent if it was reused."""
    if record.connected_ns is None:
        return ttft_ms(record)
    return _first_after_ms(record, record.connected_ns)


def e2e_ms(record: Record) -> float | None:
    """Last token's arrival minus sent."""
    return _last_after_ms(record, record.sent_ns)


def e2e_from_schedule_ms(record: Record) -> float | None:
    """Last token's arrival minus due; None in a closed loop."""
    return _last_after_ms(record, record.due_ns)


def stream_ms(record: Record) -> float:
    """End of the stream, or of waiting for it, minus sent."""
    return (record.end_ns - record.sent_ns) / 1e6


def queue_ms(record: Record) -> float | None:
    """The server's own start minus queued; None if it does not say."""
    if record.queued_ns is None or record.start_ns is None:
        return None
    return (record.start_ns - record.queued_ns) / 1e6


def tpot_ms(record: Record) -> float | None:
    """(last - first token) / (n - 1); None for n < 2."""
    seen, count = chunks(record), token_count(record)
    if not seen or count is None or count < 2:
        return None
    return (seen[-1].time_ns - seen[0].time_ns) / 1e6 / (count - 1)


def itl_ms(record: Record) -> list[float]:
    """Gaps between the arrivals of two tokens that came one by one."""
    return [gap for gap, single in _gaps(record) if single]


def inter_chunk_ms(record: Record) -> list[float]:
    """The other gaps: one side at least is a chunk of several tokens."""
    return [gap for gap, single in _gaps(record) if not single]


def streamed(record: Record) -> bool | None:
    """Whether the tokens came over time; None for fewer than two.

    They did not when one burst (chunks less than BURST_GAP_MS apart) has
    BURST_SHARE of them and lasts no more than the rest of that share of
    E2E, as behind a proxy that collects the answer. TTFT, TPOT and ITL then
    say when it was let go, and nothing of how it was made.
    """
    seen, whole_ms = chunks(record), e2e_ms(record)
    if whole_ms is None or (token_count(record) or 0) < 2:
        return None
    bursts = [[seen[0]]]
    for before, after in pairwise(seen):
        if (after.time_ns - before.time_ns) / 1e6 < BURST_GAP_MS:
            bursts[-1].append(after)
        else:
            bursts.append([after])
    largest = max(bursts, key=_tokens)
    lasts_ms = (largest[-1].time_ns - largest[0].time_ns) / 1e6
    return (
        _tokens(largest) < BURST_SHARE * _tokens(seen)
        or lasts_ms > (1 - BURST_SHARE) * whole_ms
    )


def _tokens(seen: Iterable[Chunk]) -> int:
    return sum(chunk.tokens for chunk in seen)


def _gaps(record: Record) -> list[tuple[float, bool]]:
    """Every gap between chunks, in ms, and whether it is one of ITL.

    It is none where the number of tokens in the chunks is not known: what
    arrived does not add up to what the server counted.
    """
    seen = chunks(record)
    known = _tokens(seen) == token_count(record)
    return [
        (
            (after.time_ns - before.time_ns) / 1e6,
            known and before.tokens == after.tokens == 1,
        )
        for before, after in pairwise(seen)
    ]


def _first_after_ms(record: Record, since_ns: int | None) -> float | None:
    seen = chunks(record)
    if not seen or since_ns is None:
        return None
    return (seen[0].time_ns - since_ns) / 1e6


def _last_after_ms(record: Record, since_ns: int | None) -> float | None:
    seen = chunks(record)
    if not seen or since_ns is None:
        return None
    return (seen[-1].time_ns - since_ns) / 1e6


# Many values ----------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """Of one metric over many requests; its unit. None: undefined."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    maximum: float | None


def percentile(values: Sequence[float], q: float) -> float | None:
    """Linear interpolation: NumPy's "linear", `quantiles`' "inclusive".

    With the values sorted as x[0]..x[n-1] and k = (n - 1) q / 100, it is
    x[floor k] + (k - floor k) (x[floor k + 1] - x[floor k]) (Hyndman and
    Fan 1996, definition 7). None for no values, and, for q from 99 up,
    for fewer than 100 / (100 - q), where it is the maximum by another name.
    """
    if not 0 <= q <= 100:
        raise LabError(f"A percentile lies between 0 and 100, not at {q}.")
    # 1000 * (100 - 99.9) is a little under 100 in floating point.
    beyond = len(values) * (100 - q) / 100
    too_few = FIRST_TAIL_PERCENTILE <= q < 100 and beyond < 1 - 1e-9
    if not values or too_few:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    below = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return low + (place - below) * (high - low)


def summary(values: Sequence[float]) -> Summary:
    """Mean, percentiles and maximum."""
    return Summary(
        len(values),
        statistics.fmean(values) if values else None,
        percentile(values, 50),
        percentile(values, 90),
        percentile(values, 95),
        percentile(values, 99),
        max(values, default=None),
    )


def pooled(
    metric: Callable[[Record], float | list[float] | None],
    records: Iterable[Record],
) -> list[float]:
    """All values of a metric over the requests that succeeded."""
    found: list[float] = []
    for record in records:
        value = metric(record) if record.ok else None
        if isinstance(value, list):
            found += value
        elif value is not None:
            found.append(value)
    return found


def failures(records: Iterable[Record]) -> dict[str, int]:
    """How often each code of failure occurs, the most frequent first."""
    counted = Counter(r.failure for r in records if r.failure is not None)
    return dict(counted.most_common())


def failure_rate(records: Sequence[Record]) -> float | None:
    """Failed requests / all; None for no requests."""
    if not records:
        return None
    return sum(not record.ok for record in records) / len(records)
