"""What a load test found: figures, a table for people, and CSV.

`figures` makes report.json, from the definitions in `metrics` and `rates`
alone; `verify` computes the same again with code of its own. Nothing is
rounded and nothing is drawn at random.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.errors import LabError
from labkit.loadtest import evidence, laws, metrics, rates
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.plan import Configuration
from labkit.loadtest.rates import Objectives, Span
from labkit.loadtest.records import Record

Segments = Sequence[Sequence[Record]]
Figures = dict[str, Any]

METRICS: Mapping[str, Callable[[Record], float | list[float] | None]] = {
    "ttft_ms": metrics.ttft_ms,
    "ttft_from_schedule_ms": metrics.ttft_from_schedule_ms,
    "e2e_ms": metrics.e2e_ms,
    "queue_ms": metrics.queue_ms,
    "tpot_ms": metrics.tpot_ms,
    "itl_ms": metrics.itl_ms,
    "inter_chunk_ms": metrics.inter_chunk_ms,
}


def finish(folder: Path) -> Figures:
    """Compute the report of a run that has ended and seal its folder."""
    made = figures(evidence.load(folder))
    evidence.seal(folder, made)
    return made


def figures(found: Evidence) -> Figures:
    """Every figure of a run, by configuration.

    LabError where the records break a law of conservation.
    """
    measured = {
        each.request
        for each in found.plan.requests
        if each.phase == "measured"
    }
    count = sum(run.record.request in measured for run in found.runs)
    return {
        "schema": "labkit.report",
        "version": 1,
        "percentile": "linear",
        "segments": len(found.ends),
        "warmups": len(found.runs) - count,
        "requests": count,
        "configurations": {
            each.name: _configuration(found, each)
            for each in found.plan.configurations
        },
    }


def _configuration(found: Evidence, asked: Configuration) -> Figures:
    segments = found.segments(asked.name)
    for segment in segments:
        for violation in laws.violations(segment):
            raise LabError(
                f"No report is made, for it would be wrong: {violation}"
            )
    steady = [
        [record for record in segment if not record.startup]
        for segment in segments
    ]
    samples = [
        sample
        for sample in found.samples
        if sample["configuration"] == asked.name
    ]
    rss = [s["rss_bytes"] for s in samples if s["rss_bytes"] is not None]
    lag_ms = max((sample["lag_ns"] for sample in samples), default=0) / 1e6
    objectives = found.plan.objectives
    return {
        "all": group(segments, objectives),
        "steady": group(steady, objectives),
        "asked_per_s": asked_per_s(found, asked),
        "achieved_per_s": achieved_per_s(segments),
        "server_in_flight": _in_flight(segments, rates.server_spans),
        "client_in_flight": _in_flight(segments, rates.client_spans),
        "peak_rss_bytes": max(rss, default=None),
        "client_lag_ms": lag_ms,
        "client_stalled": lag_ms > found.plan.stall_ms,
    }


def group(segments: Segments, objectives: Objectives) -> Figures:
    """The figures of some requests of one configuration.

    Rates divide by the sum of the windows of the segments.
    """
    records = [record for segment in segments for record in segment]
    succeeded = sum(record.ok for record in records)
    window = math.fsum(rates.window_s(each) or 0.0 for each in segments)
    tokens = rates.output_tokens(records)
    good = rates.goodput(records, objectives)

    def per_s(amount: int) -> float | None:
        return amount / window if window else None

    return {
        "requests": len(records),
        "failed": len(records) - succeeded,
        "failure_rate": metrics.failure_rate(records),
        "failures": metrics.failures(records),
        "output_tokens": tokens,
        "window_s": window or None,
        "output_tokens_per_s": per_s(tokens),
        "requests_per_s": per_s(succeeded),
        "met": good.met,
        "share_met": good.share,
        "goodput_per_s": per_s(good.met),
        **{
            name: asdict(metrics.summary(metrics.pooled(metric, records)))
            for name, metric in METRICS.items()
        },
    }


def asked_per_s(found: Evidence, asked: Configuration) -> float | None:
    """The rate of the schedule; of recorded arrivals, (n - 1) / span."""
    if asked.arrivals != "recorded":
        return asked.rate_per_s
    planned = found.plan.of(asked.name, "measured")
    offsets = [each.offset_ns or 0 for each in planned]
    span_ns = max(offsets, default=0) - min(offsets, default=0)
    return (len(offsets) - 1) / (span_ns / 1e9) if span_ns else None


def achieved_per_s(segments: Segments) -> float | None:
    """Requests sent per second, from the first send to the last.

    n requests span n - 1 intervals; beside the rate that was asked for, it
    says whether the client kept up.
    """
    span_ns = sum(each[-1].sent_ns - each[0].sent_ns for each in segments)
    gaps = sum(len(each) - 1 for each in segments)
    return gaps / (span_ns / 1e9) if span_ns else None


def _in_flight(
    segments: Segments, spans_of: Callable[[Sequence[Record]], list[Span]]
) -> Figures:
    """Mean, by time integral over all segments, and peak."""
    joined = _end_to_end([spans_of(segment) for segment in segments])
    return {
        "mean": rates.mean_in_flight(joined),
        "peak": rates.peak_in_flight(joined),
    }


def _end_to_end(segments: Sequence[Sequence[Span]]) -> list[Span]:
    """The spans of all segments, as if each began when the last ended."""
    joined: list[Span] = []
    end = 0
    for spans in segments:
        if spans:
            shift = end - min(begin for begin, _ in spans)
            joined += [(begin + shift, over + shift) for begin, over in spans]
            end = max(over for _, over in joined)
    return joined


def as_csv(made: Mapping[str, Any]) -> str:
    """The figures of every configuration, one on each line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["configuration", "figure", "value"])
    for name, configuration in made["configurations"].items():
        for figure, value in _flat(configuration):
            writer.writerow([name, figure, json.dumps(value)])
    return text.getvalue()


def _flat(
    figures: Mapping[str, Any], before: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
