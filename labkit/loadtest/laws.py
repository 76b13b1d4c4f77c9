"""Conservation laws: what must hold of any records, whatever was measured.

A report that breaks one is wrong. Standard library only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from labkit.loadtest import metrics, rates
from labkit.loadtest.records import Record

REL = 1e-9
"""Rounding that sums of nanoseconds in floating point may show."""


def violations(records: Sequence[Record]) -> list[str]:
    """One sentence for each law that is broken; none for good records."""
    found = [fault for record in records for fault in of_one(record)]
    return found + list(_of_many(records))


def of_one(record: Record) -> Iterator[str]:
    """The laws of a single request."""
    name = f"Request {record.request}"
    times = [arrival.time_ns for arrival in record.arrivals]
    if any(after < before for before, after in pairwise(times)):
        yield f"{name}: arrivals are not in the order of their times."
    if times and times[-1] > record.end_ns:
        yield f"{name}: an arrival lies after the end of the stream."
    if record.end_ns < record.sent_ns:
        yield f"{name}: it ended before it was sent."
    if record.due_ns is not None and record.sent_ns < record.due_ns:
        yield f"{name}: it was sent before it was due."
    connected = record.connected_ns
    if connected is not None and connected < record.sent_ns:
        yield f"{name}: it was connected before it was sent."
    yield from _of_tokens(record, name)


def _of_tokens(record: Record, name: str) -> Iterator[str]:
    first, last = metrics.ttft_ms(record), metrics.e2e_ms(record)
    arrived = sum(chunk.tokens for chunk in metrics.chunks(record))
    if first is None or last is None:
        if record.ok:
            yield f"{name}: it succeeded without a token."
        return
    if not 0 <= first <= last:
        yield f"{name}: 0 <= TTFT {first} <= E2E {last} does not hold."
    gaps = [*metrics.itl_ms(record), *metrics.inter_chunk_ms(record)]
    if not math.isclose(
        math.fsum(gaps), last - first, rel_tol=REL, abs_tol=1e-5
    ):
        yield f"{name}: the gaps do not add up to the last minus the first."
    exact = record.ok and record.counted == "ids"
    if exact and record.new_tokens not in (None, arrived):
        yield (
            f"{name}: {arrived} tokens arrived, the server counted"
            f" {record.new_tokens}."
        )


def _of_many(records: Sequence[Record]) -> Iterator[str]:
    succeeded = sum(record.ok for record in records)
    failed = sum(metrics.failures(records).values())
    if succeeded + failed != len(records):
        yield f"{len(records)} sent is not {succeeded} + {failed}."
    for name, count in Counter(r.request for r in records).items():
        if count > 1:
            yield f"Request {name} is there {count} times."
    peak, mean = (
        rates.peak_tokens_per_s(records),
        rates.mean_tokens_per_s(records),
    )
    if peak is not None and mean is not None and peak < mean:
        yield f"The peak of {peak} tokens/s is below the mean of {mean}."
    for whose, spans in (
        ("server", rates.server_spans(records)),
        ("client", rates.client_spans(records)),
    ):
        number, law = rates.mean_in_flight(spans), rates.rate_times_time(spans)
        if number is None or law is None:
            continue
        if not math.isclose(number, law, rel_tol=REL):
            yield (
                f"By the {whose}, {number} in flight is not rate times"
                f" time in system, {law}."
            )
