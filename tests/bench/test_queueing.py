"""What is made of waits, a run in parts, and the page that quotes one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from labkit import documents, queueing, stats
from labkit.errors import LabError
from labkit.loadtest.playing import Played
from labkit.loadtest.records import Arrival, Record
from labkit.machine import Machine
from labkit.queue_simulation import Visit

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "bench" / "results").glob("*/queueing.json"))


@pytest.fixture(scope="module")
def reports(bench: Callable[[str], Any]) -> Any:
    return bench("queueing_report")


@pytest.fixture(scope="module")
def queue(bench: Callable[[str], Any]) -> Any:
    """`bench/queueing.py`."""
    return bench("queueing")


@pytest.fixture
def small(queue: Any) -> Any:
    """Twelve requests of 2 ms, twice."""
    return replace(
        queue.PROTOCOL,
        mean_s=0.002,
        rate_per_s=400.0,
        requests=12,
        warmup=4,
        replications=2,
        together=2,
        seeds=(5,),
        simulated_sets=2,
    )


@pytest.fixture
def report(reports: Any, small: Any) -> Any:
    """A run in which everything holds: constant services, 80 %."""
    value_s = queueing.md1_wait_s(400, 0.002)
    assert value_s is not None
    replications = tuple(
        reports.Replication(
            wait_s=value_s * factor,
            naive_low_s=value_s * factor * 0.99,
            naive_high_s=value_s * factor * 1.01,
            rate_per_s=400 * factor,
            service_mean_s=0.002,
            service_variance_s2=0.0,
        )
        for factor in (0.9, 1.0, 1.1)
    )
    watched = tuple(reports.Watched(0.005, 0.004, 0.001, 0) for _ in range(3))
    cell = reports.Cell(
        "constant", 5, "2026-11-30T12:00:00Z", 9.0, replications, watched
    )
    return reports.Report(
        started_utc="2026-11-30T12:00:00Z",
        machine=Machine("CPU", 2, 2**34, "Linux", "x86_64"),
        software={"python": "3.11"},
        protocol=replace(small, services={"constant": 0.0}),
        cells=(cell,) * 6,
        simulated=(reports.Coverage("constant", 4000, 800, 200, 188),),
    )


def failed(reports: Any, report: Any) -> list[str]:
    found = [check for check in reports.checks(report) if not check.holds]
    lines = list(reports.check_lines(report))
    assert sum(line.startswith("FAILS") for line in lines) == len(found)
    return [check.name for check in found]


def moved(cell: Any, factor: float) -> Any:
    """The same with waits that are longer."""
    return replace(
        cell,
        replications=tuple(
            replace(one, wait_s=one.wait_s * factor)
            for one in cell.replications
        ),
    )


def test_a_good_run_holds(reports: Any, report: Any) -> None:
    assert failed(reports, report) == []
    text = reports.as_text(report)
    assert "in 6 of 6" in text
    assert "20.0 % (18.8-21.3 %)" in text
    assert "94.0 % (89.8-96.9 %)" in text


def test_one_interval_may_miss_and_two_may_not(
    reports: Any, report: Any
) -> None:
    *rest, last = report.cells
    one = replace(report, cells=(*rest, moved(last, 2)))
    assert failed(reports, one) == []
    (cause,) = reports.checks(one)[:1]
    # Twice 4 ms of wait, of which 4 ms had all been on time.
    assert "in 5 of 6" in cause.detail
    assert cause.detail.endswith(
        "missed with constant services, seed 5, where lateness added 4.00 ms"
    )
    assert reports.rows(one)[-1][6] == "no"
    two = replace(report, cells=(*rest[1:], moved(last, 2), moved(last, 0.5)))
    (name,) = failed(reports, two)
    assert name.startswith("the formula's value")


def test_failed_requests_and_another_rate(reports: Any, report: Any) -> None:
    cell = report.cells[0]
    lost = replace(cell.watched[0], failed=1)
    changed = replace(cell, watched=(lost, *cell.watched[1:]))
    found = failed(reports, replace(report, cells=(changed,)))
    assert found == ["every request was answered"]
    for factor in (0.1, 2.1):
        slow = replace(
            cell,
            replications=tuple(
                replace(one, rate_per_s=one.rate_per_s * factor)
                for one in cell.replications
            ),
        )
        found = failed(reports, replace(report, cells=(slow,)))
        assert found == ["requests came at the asked rate"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"naive": 2000}, "an interval from one run's"),
        ({"inside": 170}, "an interval from replications"),
    ],
)
def test_intervals_that_cover_otherwise(
    reports: Any, report: Any, change: dict[str, int], name: str
) -> None:
    simulated = (replace(report.simulated[0], **change),)
    (found,) = failed(reports, replace(report, simulated=simulated))
    assert found.startswith(name)


def test_the_verdict_is_the_formula_beside_students_interval(
    reports: Any, report: Any
) -> None:
    replications = report.cells[0].replications
    found = reports.judge(replications, 400.0)
    assert found.predicted_s == queueing.md1_wait_s(400, 0.002)
    waits_s = [one.wait_s for one in replications]
    assert found.interval == stats.mean_interval(waits_s)
    assert found.inside
    faster = reports.judge(replications, 390.0)
    assert faster.predicted_s < found.predicted_s
    assert faster.at_measured_rate_s == pytest.approx(found.predicted_s)
    assert reports.judge(replications, 500.0).predicted_s == math.inf
    assert not reports.judge(replications, 500.0).inside


def test_moments_of_replications_are_those_of_all_requests(
    reports: Any, queue: Any
) -> None:
    source = Random(1)
    runs = [[source.random() for _ in range(9)] for _ in range(4)]
    made = [
        queue.replication([Visit(n, n, n + s) for n, s in enumerate(run)])
        for run in runs
    ]
    whole = [s for run in runs for s in run]
    mean_s, variance_s2 = reports.service_moments(made)
    assert mean_s == pytest.approx(sum(whole) / 36)
    squares = sum(s * s for s in whole) / 36
    assert variance_s2 == pytest.approx(squares - mean_s**2)


def test_a_replication_by_hand(queue: Any) -> None:
    found = queue.replication([Visit(0, 0, 2), Visit(1, 2, 3), Visit(4, 4, 7)])
    assert found.wait_s == pytest.approx(1 / 3)
    assert found.rate_per_s == pytest.approx(0.5)
    assert found.service_mean_s == pytest.approx(2)
    assert found.service_variance_s2 == pytest.approx(2 / 3)
    naive = stats.mean_interval([0, 1, 0])
    assert naive is not None
    assert (found.naive_low_s, found.naive_high_s) == (naive.low, naive.high)


def test_what_clients_saw_by_hand(queue: Any) -> None:
    """Read 1 ms late, 4 ms of wait, 10 ms of service, 2 ms back."""
    ms = 10**6
    played = Played("a", 0, 0, 101 * ms, [], 105 * ms, 115 * ms)
    arrival = Arrival(117 * ms, "token", tokens=1)
    record = Record("a", 100 * ms, 118 * ms, 100 * ms, arrivals=(arrival,))
    before = replace(played, request="b")
    ideal = [Visit(0, 5, 6), Visit(0.1, 0.103, 0.113)]
    found = queue.watched([record], [before, played], ideal, 1)
    assert found.wait_s == pytest.approx(0.007)
    assert found.ideal_wait_s == pytest.approx(0.003)
    assert found.late_s == pytest.approx(0.001)
    assert found.failed == 0
    assert queue.visit(played).wait_s == pytest.approx(0.004)
    with pytest.raises(LabError, match="not played to its end"):
        queue.visit(replace(played, end_ns=None))


def test_simulated_runs_are_counted(queue: Any, small: Any) -> None:
    """Intervals of 50 runs of 100 requests: a minority of naive ones hold."""
    protocol = replace(
        small, requests=400, warmup=100, replications=10, simulated_sets=8
    )
    found = queue.simulate(protocol, "constant")
    assert (found.runs, found.sets) == (80, 8)
    assert 0 < found.naive < 60
    assert 4 <= found.inside <= 8
    assert found == queue.simulate(protocol, "constant")


def test_a_run_goes_on_where_it_stopped(
    queue: Any,
    reports: Any,
    small: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "PROTOCOL", small)
    assert queue.run(tmp_path, 1) is None
    (path,) = tmp_path.iterdir()
    begun = reports.from_json(documents.read(path))
    assert [cell.service for cell in begun.cells] == ["exponential"]
    report = queue.run(tmp_path, None)
    (path,) = tmp_path.iterdir()
    assert path.name == "queueing.json"
    assert reports.from_json(documents.read(path)) == report
    assert report.cells[0] == begun.cells[0]
    assert [cell.service for cell in report.cells] == list(small.services)
    assert [one.service for one in report.simulated] == list(small.services)
    constant = report.cells[1].replications[0]
    assert constant.service_mean_s == pytest.approx(0.002)
    assert constant.service_variance_s2 == pytest.approx(0, abs=1e-12)
    for watched in report.cells[1].watched:
        assert watched.failed == 0
        assert watched.ideal_wait_s >= 0


def test_a_run_of_another_protocol_is_not_gone_on_with(
    queue: Any, small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "PROTOCOL", small)
    assert queue.run(tmp_path, 1) is None
    (path,) = tmp_path.iterdir()
    kept = path.read_bytes()
    monkeypatch.setattr(queue, "PROTOCOL", replace(small, warmup=5))
    with pytest.raises(LabError, match="another protocol"):
        queue.run(tmp_path, 1)
    assert path.read_bytes() == kept


def test_a_report_on_disk(reports: Any, report: Any) -> None:
    text = reports.to_text(report)
    assert reports.from_json(documents.parse(text)) == report
    with pytest.raises(LabError, match="lacks 'protocol'"):
        document = documents.parse(text)
        del document["protocol"]
        reports.from_json(document)


def test_the_page_is_the_rendered_result(reports: Any) -> None:
    (path,) = RESULTS
    report = reports.from_json(documents.read(path))
    page = (ROOT / "docs" / "queueing.md").read_text(encoding="utf-8")
    assert reports.as_markdown(report) in page


def test_the_kept_run_is_whole_and_holds(reports: Any, queue: Any) -> None:
    (path,) = RESULTS
    report = reports.from_json(documents.read(path))
    assert report.protocol == queue.PROTOCOL
    assert queue.parts_left(report) == []
    assert len(report.protocol.seeds) >= 3
    assert min(len(cell.replications) for cell in report.cells) >= 20
    assert failed(reports, report) == []
