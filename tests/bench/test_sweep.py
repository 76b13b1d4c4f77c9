"""What a search must hold, on made-up runs, and the page that quotes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit import documents
from labkit.errors import LabError
from labkit.loadtest.scripted import ScriptedServer
from labkit.loadtest.sweep import Count, Probe
from labkit.loadtest.timelines import one_by_one
from labkit.machine import Machine

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "bench" / "results").glob("*/sweep.json"))


@pytest.fixture(scope="module")
def sweeps(bench: Callable[[str], Any]) -> Any:
    return bench("sweep")


@pytest.fixture(scope="module")
def reports(bench: Callable[[str], Any]) -> Any:
    return bench("sweep_report")


def probe(rate_per_s: float, good: int) -> Probe:
    return Probe(rate_per_s, (Count(good, 100), Count(good, 100)))


@pytest.fixture
def report(reports: Any) -> Any:
    """A run in which everything holds."""
    even = reports.Case(
        name="evenly spaced requests",
        source="1 / service time",
        known_per_s=20.0,
        service_s=0.05,
        wait=0.5,
        goal=0.99,
        tolerance=0.05,
        confidence=0.95,
        runs=2,
        requests=100,
        skipped=0,
        seconds=30.0,
        latest_ms=1.5,
        void=0,
        probes=(probe(10, 100), probe(19.9, 100), probe(20.5, 40)),
    )
    random = replace(
        even,
        name="random requests",
        known_per_s=12.9,
        goal=0.9,
        probes=(probe(8, 98), probe(12.5, 92), probe(13.5, 86)),
    )
    return reports.Report(
        started_utc="2026-11-30T12:00:00Z",
        machine=Machine("CPU", 2, 2**34, "Linux", "x86_64"),
        software={"python": "3.11"},
        seed=1,
        erlang_per_s=12.95,
        simulated_requests=1000,
        cases=(even, random),
        virtual=reports.Virtual(10, 9, 8, 0.1, 1000.0),
    )


def failed(reports: Any, report: Any) -> list[str]:
    found = [check for check in reports.checks(report) if not check.holds]
    lines = list(reports.check_lines(report))
    assert sum(line.startswith("FAILS") for line in lines) == len(found)
    return [check.name for check in found]


def test_a_good_run_holds(reports: Any, report: Any) -> None:
    assert failed(reports, report) == []


def changed(report: Any, place: int, **changes: Any) -> Any:
    cases = list(report.cases)
    cases[place] = replace(cases[place], **changes)
    return replace(report, cases=tuple(cases))


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_rate_that_is_not_found(
    reports: Any, report: Any, place: int, factor: float
) -> None:
    case = report.cases[place]
    moved = changed(report, place, known_per_s=case.known_per_s * factor)
    found = failed(reports, moved)
    assert f"{case.name}: the known rate is found within 5%" in found
    assert f"{case.name}: it lies between the two ends" in found


def test_an_end_that_is_open(reports: Any, report: Any) -> None:
    broken = changed(report, 0, probes=report.cases[0].probes[:2])
    assert failed(reports, broken) == [
        "evenly spaced requests: the search ended"
    ]


def test_a_simulation_that_is_not_erlang_s(reports: Any, report: Any) -> None:
    (found,) = failed(reports, replace(report, erlang_per_s=13.2))
    assert found.startswith("Erlang")


def test_a_report_survives_its_file(reports: Any, report: Any) -> None:
    text = reports.to_text(report)
    assert reports.from_json(documents.parse(text)) == report
    with pytest.raises(LabError):
        reports.from_json(documents.parse(text.replace("wait", "weight")))


def test_what_is_known_is_known_twice(sweeps: Any) -> None:
    asked = sweeps.RANDOM
    by_formula = sweeps.erlang_per_s(asked)
    assert by_formula == pytest.approx(0.6478 / 0.2, rel=1e-3)
    simulated = sweeps.simulated_per_s(asked, 60_000)
    assert simulated == pytest.approx(by_formula, rel=0.05)


def test_a_short_search_in_virtual_time(sweeps: Any) -> None:
    asked = replace(sweeps.RANDOM, runs=6, requests=100, skipped=10)
    seen = sweeps.virtual(asked, sweeps.erlang_per_s(asked), 4)
    assert seen.searches == 4
    assert 1 <= seen.enclosing <= 4
    assert 0 < seen.mean_width < 1
    assert seen.mean_requests >= 2 * 6 * 90


@pytest.mark.parametrize(("wait", "good"), [(10_000.0, 15), (-1.0, 0)])
def test_what_is_counted_on_a_server(
    sweeps: Any, wait: float, good: int
) -> None:
    """Bounds so wide, or so tight, that no machine's noise matters."""
    asked = replace(
        sweeps.RANDOM, wait=wait, requests=20, skipped=5, service_s=0.005
    )
    script = [one_by_one([5.0])]
    with ScriptedServer(script, slots=1) as server:
        bench = sweeps.Bench(asked, [server])
        ((found, late_ms),) = bench._together(500.0)
        assert found == Count(good, 15)
        assert len(server.truth()) == 20
        bench._together(500.0)
        assert bench._played == [40]
    assert late_ms > 0


def test_good_is_service_and_wait(sweeps: Any) -> None:
    assert sweeps.objectives(sweeps.RANDOM).ttft_ms == pytest.approx(700)


def test_a_measurement_with_a_stall_is_made_again(
    sweeps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = sweeps.Bench(sweeps.EVEN, [])
    good, bad = [(Count(1, 1), 99.0)] * 2, [(Count(0, 1), 101.0)] * 2
    made = iter([bad, bad, good])
    monkeypatch.setattr(bench, "_together", lambda _: next(made))
    assert bench.measure(1.0) == [Count(1, 1)] * 2
    assert (bench.void, bench.latest_ms) == (2, 99.0)
    monkeypatch.setattr(bench, "_together", lambda _: bad)
    with pytest.raises(LabError, match="stalled"):
        bench.measure(1.0)


def test_a_search_makes_a_case(
    sweeps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is in time: the lower end misses, and no more is asked."""
    asked = replace(
        sweeps.EVEN, wait=-1.0, requests=5, service_s=0.005, most_repeats=1
    )
    monkeypatch.setattr(sweeps, "MOST_LATE", 1e6)
    case = sweeps.search(asked, 200.0, "1 / service time")
    assert [probe.rate_per_s for probe in case.probes] == [100.0]
    assert [probe.runs for probe in case.probes] == [(Count(0, 5),) * 2]
    assert case.seconds > 0


def test_the_page_is_the_rendered_result(reports: Any) -> None:
    (path,) = RESULTS
    report = reports.from_json(documents.read(path))
    page = (ROOT / "docs" / "goodput.md").read_text(encoding="utf-8")
    assert reports.as_markdown(report) in page


def test_the_kept_run_is_whole_and_holds(reports: Any, sweeps: Any) -> None:
    (path,) = RESULTS
    report = reports.from_json(documents.read(path))
    names = [case.name for case in report.cases]
    assert names == [sweeps.EVEN.name, sweeps.RANDOM.name]
    assert failed(reports, report) == []
