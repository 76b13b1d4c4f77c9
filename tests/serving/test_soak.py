"""A short soak: many clients at once, of whom some behave badly."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from labkit import documents

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def soaked() -> Any:
    """The report of a run of `bench/soak.py`, and the module of reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        soak = importlib.import_module("soak")
        load = soak.Load(requests=150, clients=8, max_waiting=5, between=75)
        yield soak.soak(load), importlib.import_module("soak_report")


def test_everything_holds(soaked: Any) -> None:
    """Memory aside, for which this run is too short."""
    report, reports = soaked
    failed = [
        f"{check.name}: {check.detail}"
        for check in reports.checks(report)
        if not check.holds and check.name != reports.MEMORY
    ]
    assert failed == []


def test_there_was_something_to_hold(soaked: Any) -> None:
    report, _ = soaked
    assert report.seen.behaviours == {
        "leaves": 15,
        "malformed": 8,
        "slow": 3,
        "patient": 124,
    }
    assert report.seen.answered >= 100
    assert report.seen.full > 0
    assert report.counted.ended.get("cancelled", 0) > 0
    assert [sample.requests for sample in report.samples] == [75, 150]


def test_the_report_can_be_kept(soaked: Any) -> None:
    report, reports = soaked
    document = documents.parse(reports.to_text(report))
    assert reports.from_json(document) == report
