"""What the fuzz bench counts and demands, from records made up here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit import documents
from labkit.machine import Machine

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "bench" / "results").glob("*/fuzz.json"))
HEADING = "## Fuzz\n"


@pytest.fixture(scope="module")
def fuzz_report(bench: Callable[[str], Any]) -> Any:
    return bench("fuzz_report")


@pytest.fixture(scope="module")
def fuzz(bench: Callable[[str], Any]) -> Any:
    return bench("fuzz")


@pytest.fixture(scope="module")
def fuzz_checks(bench: Callable[[str], Any]) -> Any:
    return bench("fuzz_checks")


def scenario(
    label: str, mode: str, status: int | None, verdict: str
) -> dict[str, Any]:
    response = None if status is None else {"status_code": status}
    return {
        "label": label,
        "cases": {"x": {"value": {"meta": {"generation": {"mode": mode}}}}},
        "interactions": {"x": {"response": response}},
        "checks": {"x": [{"name": "right", "status": verdict}]},
    }


@pytest.fixture
def report(fuzz_report: Any) -> Any:
    tally = fuzz_report.Tally()
    tally.add(scenario("POST /a", "negative", 400, "success"))
    tally.add(scenario("POST /a", "positive", 200, "success"))
    tally.add(scenario("POST /a", "positive", 200, "success"))
    tally.add({"label": "GET /"})
    standing = fuzz_report.Standing(70, 20, 0, 0)
    return fuzz_report.Report(
        started_utc="2026-01-01T00:00:00Z",
        machine=Machine("a CPU", 2, 2**30, "Linux", "x86_64"),
        software={"python": "3.11"},
        most_examples=3,
        seed=1,
        seconds=2.0,
        checks=dict(tally.checks),
        operations=tally.operations(),
        failures=(),
        before=standing,
        after=standing,
        served_after=True,
    )


def test_examples_are_counted_by_operation(report: Any) -> None:
    counted = report.operations["POST /a"]
    assert (counted.examples, counted.invalid, counted.failures) == (3, 1, 0)
    assert counted.statuses == {"200": 2, "400": 1}
    assert report.operations["GET /"].examples == 0
    assert report.checks == {"right": 3}


def test_a_report_is_read_back(fuzz_report: Any, report: Any) -> None:
    text = fuzz_report.to_text(report)
    assert fuzz_report.from_json(json.loads(text)) == report


def test_a_good_run_holds(fuzz_report: Any, report: Any) -> None:
    checks = fuzz_report.checks(report)
    assert len(checks) == 5
    assert all(check.holds for check in checks)


def failing(fuzz_report: Any, report: Any) -> list[str]:
    found = fuzz_report.checks(report)
    return [check.name for check in found if not check.holds]


def test_what_does_not_hold_is_named(fuzz_report: Any, report: Any) -> None:
    def after(**changes: int) -> list[str]:
        standing = replace(report.after, **changes)
        return failing(fuzz_report, replace(report, after=standing))

    assert after(threads=71) == ["threads do not grow"]
    assert after(files=21) == ["open files do not grow"]
    assert after(running=1) == after(waiting=1) == ["no slot is stuck"]
    silent = replace(report, served_after=False)
    assert failing(fuzz_report, silent) == ["no slot is stuck"]
    told = replace(report, failures=("Wrong (POST /a)",))
    assert failing(fuzz_report, told) == [
        "every answer is as the description says"
    ]
    assert "Wrong (POST /a)" in fuzz_report.as_text(told)


@pytest.mark.parametrize(
    ("status", "verdict", "name"),
    [
        (200, "failure", "every answer is as the description says"),
        (None, "success", "every request has an answer"),
    ],
)
def test_a_failure_that_was_recorded_counts(
    fuzz_report: Any, report: Any, status: int, verdict: str, name: str
) -> None:
    tally = fuzz_report.Tally()
    tally.add(scenario("POST /a", "positive", status, verdict))
    bad = replace(report, operations=tally.operations())
    assert failing(fuzz_report, bad) == [name]


def test_a_run_that_is_not_whole_is_a_failure(fuzz: Any) -> None:
    whole: dict[str, Any] = {"failures": [], "errors": [], "complete": True}
    assert fuzz.failures(whole) == ()
    broken: list[dict[str, Any]] = [{"complete": False}, {"errors": [{}]}]
    for changes in broken:
        assert fuzz.failures(whole | changes) == ("the run was not whole",)
    found = {"title": "Wrong", "operations": ["GET /", "POST /a"]}
    told = fuzz.failures(whole | {"failures": [found]})
    assert told == ("Wrong (GET /, POST /a)",)


def test_scenarios_are_read_from_the_events(fuzz: Any, tmp_path: Path) -> None:
    recorder = scenario("POST /a", "positive", 200, "success")
    lines = [{"Initialize": {}}, {"ScenarioFinished": {"recorder": recorder}}]
    path = tmp_path / "events.ndjson"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    operations = fuzz.tally(path).operations()
    assert operations["POST /a"].examples == 1


def test_the_server_of_the_bench_works(fuzz: Any) -> None:
    with fuzz.serving() as (url, look):
        assert fuzz.works(url)
        standing = fuzz.when_idle(look, look())
        assert (standing.running, standing.waiting) == (0, 0)
        assert standing.threads > 10
        assert standing.files > 3


@pytest.mark.parametrize(
    ("code", "param", "body", "beyond"),
    [
        ("over_context", None, {}, True),
        ("invalid_value", "min_tokens", {"min_tokens": 9}, True),
        ("wrong_type", "prompt", {"prompt": [1, {"a": [2.0]}]}, True),
        ("invalid_value", "seed", {"seed": 2.0}, True),
        ("invalid_value", "seed", {"seed": 2}, False),
        ("wrong_type", "prompt", {"prompt": [2.5, True, "1.0"]}, False),
        ("unknown_field", "x", {"x": 2.0}, False),
        ("empty_prompt", None, {"prompt": ""}, False),
    ],
)
def test_what_a_schema_cannot_say(
    fuzz_checks: Any, code: str, param: str | None, body: Any, beyond: bool
) -> None:
    error = {"code": code, "param": param}
    assert fuzz_checks.is_beyond_a_schema(error, body) == beyond


@pytest.fixture(scope="module")
def kept(fuzz_report: Any) -> Any:
    (path,) = RESULTS
    return fuzz_report.from_json(documents.read(path))


def test_the_kept_run_found_nothing(fuzz_report: Any, kept: Any) -> None:
    assert failing(fuzz_report, kept) == []
    assert sum(each.examples for each in kept.operations.values()) > 10_000


def test_the_page_has_the_kept_run(fuzz_report: Any, kept: Any) -> None:
    page = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    assert fuzz_report.as_markdown(kept) in section
