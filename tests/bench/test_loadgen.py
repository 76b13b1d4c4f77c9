"""bench/loadgen.py: errors from stamps, and the bars from errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from labkit import documents
from labkit.loadtest.playing import Played, Write
from labkit.loadtest.records import Arrival, Record
from labkit.machine import Machine
from labkit.observations import Observation
from labkit.results import Protocol

US = 1000


@pytest.fixture
def reports(bench: Callable[[str], Any]) -> Any:
    return bench("loadgen_report")


def record(name: str, *arrivals_us: int, connected: bool = True) -> Record:
    return Record(
        name,
        sent_ns=0,
        end_ns=arrivals_us[-1] * US,
        connected_ns=100 * US if connected else None,
        arrivals=tuple(
            Arrival(us * US, "token", (1,), 1) for us in arrivals_us
        ),
    )


def played(name: str) -> Played:
    writes = [
        Write("start", 0, 900 * US, 900 * US),
        Write("tokens", 1, 1000 * US, 1010 * US),
        Write("tokens", 1, 2000 * US, 2000 * US),
        Write("tokens", 1, 3000 * US, 3110 * US),
    ]
    return Played(name, 0, 150 * US, 200 * US, writes)


def report(reports: Any, wave: Any) -> Any:
    conditions = (reports.NEW, reports.REUSED, reports.AT_ONCE)
    return reports.Report(
        started_utc="2026-01-01T00:00:00Z",
        machine=Machine(
            cpu="A CPU",
            cores=2,
            ram_bytes=8,
            system="Linux",
            architecture="x86_64",
        ),
        software={},
        protocol=Protocol("p", conditions, 1, 1, 0, "interleaved", 1, None),
        streams=1,
        gap_ms=20,
        tokens=3,
        observations=tuple(
            Observation(name, 1, place, 1.0, 0.0, value=asdict(wave))
            for place, name in enumerate(conditions, 1)
        ),
    )


def test_errors_are_differences_of_stamps(reports: Any) -> None:
    records = [
        record("a", 1060, 2020, 3160),
        record("b", 1060, 2020, 3160, connected=False),
        Record("c", 0, 5, failure="timeout"),
    ]
    wave = reports.compare(records, {"a": played("a"), "b": played("b")})
    assert wave.arrival_us == [[20, 50], [2, 4]]
    assert wave.lateness_us == [[0, 10, 110], [2, 2, 2]]
    assert wave.tpot_us == [0, 0]
    assert wave.ttft_us == [1060 - (1010 - 150)]
    assert wave.ttft_connected_us == [960 - 810, 1060 - 810]
    assert wave.accepted_us == [150]
    assert wave.released_us == 0
    assert wave.failed == 1


def test_a_token_that_is_missing_is_not_compared(reports: Any) -> None:
    with pytest.raises(ValueError, match="zip"):
        reports.compare([record("a", 1060, 2020)], {"a": played("a")})


def test_a_report_survives_its_file_and_judges(reports: Any) -> None:
    wave = reports.Wave(
        [[100, 1900], [95, 5]],
        [[0], [100]],
        [-499],
        [-6999] * 100,
        [5],
        [],
        1200,
        0,
    )
    made = report(reports, wave)
    read = reports.from_json(documents.parse(reports.to_text(made)))
    assert read == made
    assert [line.partition(":")[0] for line in reports.goals(read)] == (
        ["reached"] * 5
    )
    text = reports.as_text(read)
    assert "0.499" in text
    assert "0 requests failed" in text
    assert reports.as_markdown(read).startswith("| condition |")


def test_a_bar_can_be_missed(reports: Any) -> None:
    wave = reports.Wave(
        [[2000], [10]], [[0], [10]], [500], [-7000] * 100, [5], [], 1, 3
    )
    read = report(reports, wave)
    lines = reports.goals(read)
    assert [line.partition(":")[0] for line in lines] == ["missed"] * 5
    assert "9 requests failed" in reports.as_text(read)


def test_errors_of_events_are_kept_in_bins_while_they_are_small(
    reports: Any,
) -> None:
    kept = [reports._bin(us * US) for us in (-994, 4, 6, 994, 1004, 2003)]
    assert kept == [-990, 0, 10, 990, 1004, 2003]


def test_how_far_a_wave_was_spread(reports: Any) -> None:
    wave = reports.Wave([[], []], [[], []], [], [], [], [], 1200, 0)
    made = report(reports, wave)
    assert reports.released_ms(made, reports.AT_ONCE) == [1.2]
