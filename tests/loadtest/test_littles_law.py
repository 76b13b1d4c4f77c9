"""Little's law on every evidence that is committed, from three readings.

Rate and time in system are what the client saw, the number in the system is
the time integral of the server's own events. None is computed from another,
and `laws`, which looks at one side alone, is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from labkit.loadtest import evidence, rates
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.records import Record

ROOT = Path(__file__).parents[2] / "data" / "evidence"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/*/manifest.json"))
NAMES = [path.relative_to(ROOT).as_posix() for path in FOLDERS]
TOLERANCE = 0.02


@pytest.fixture(params=FOLDERS, ids=NAMES)
def found(request: pytest.FixtureRequest) -> Evidence:
    return evidence.load(request.param)


def runs(found: Evidence) -> dict[str, list[Record]]:
    """The measured requests of each configuration and segment."""
    return {
        f"{each.name}, {place}": records
        for each in found.plan.configurations
        for place, records in enumerate(found.segments(each.name))
    }


def sent_and_done(records: Sequence[Record]) -> list[tuple[int, int]]:
    """By the client: sent, and the arrival of the terminal event."""
    return [(r.sent_ns, r.arrivals[-1].time_ns) for r in records]


def ends(spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return min(s for s, _ in spans), max(e for _, e in spans)


def rate_times_time(
    spans: Sequence[tuple[int, int]], window: tuple[int, int]
) -> float:
    """Both by the client; the rate is over a window."""
    per_ns = len(spans) / (window[1] - window[0])
    return per_ns * fmean(done - sent for sent, done in spans)


def apart(records: Sequence[Record], window: tuple[int, int]) -> float:
    number = rates.mean_in_flight(rates.server_spans(records))
    assert number is not None
    law = rate_times_time(sent_and_done(records), window)
    return abs(number / law - 1)


def test_there_is_evidence() -> None:
    assert FOLDERS


def test_every_request_has_what_is_read(found: Evidence) -> None:
    """None is missing, on either side, that the integral should have."""
    assert found.complete
    for records in runs(found).values():
        assert records
        assert all(record.ok for record in records)
        assert len(rates.server_spans(records)) == len(records)


def test_windows_start_and_end_empty(found: Evidence) -> None:
    segment_of = {run.record.request: run.segment for run in found.runs}
    for name, records in runs(found).items():
        own = {record.request for record in records}
        first, last = ends(sent_and_done(records))
        inside = [
            run.record.request
            for run in found.runs
            if run.segment == segment_of[records[0].request]
            and run.record.request not in own
            and run.record.sent_ns < last
            and run.record.arrivals[-1].time_ns > first
        ]
        assert not inside, name


def test_the_law_holds(found: Evidence) -> None:
    for name, records in runs(found).items():
        whole = ends(sent_and_done(records))
        assert apart(records, whole) < TOLERANCE, name


def test_a_window_to_the_last_send_breaks_it(found: Evidence) -> None:
    """What a generator reports that stops its clock when it has sent all."""
    for name, records in runs(found).items():
        sent = [record.sent_ns for record in records]
        assert apart(records, (min(sent), max(sent))) > TOLERANCE, name


def test_a_request_that_one_side_lost_breaks_it(found: Evidence) -> None:
    """The readings are independent: neither side hides what it lacks."""
    for name, records in runs(found).items():
        window = ends(sent_and_done(records))
        number = rates.mean_in_flight(rates.server_spans(records))
        law = rate_times_time(sent_and_done(records[1:]), window)
        assert number is not None
        assert abs(number / law - 1) > TOLERANCE, name
