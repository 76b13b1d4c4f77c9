"""What a soak must hold, on made-up runs, and the page that quotes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit import documents
from labkit.errors import LabError
from labkit.generation import Token
from labkit.machine import Machine
from labkit.serving.interface import (
    Done,
    Event,
    Failed,
    Queued,
    Started,
    Timeline,
)
from labkit.serving.protocol import Refusal

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "bench" / "results").glob("*/soak.json"))
MIB = 2**20


@pytest.fixture(scope="module")
def reports(bench: Callable[[str], Any]) -> Any:
    return bench("soak_report")


@pytest.fixture(scope="module")
def clients(bench: Callable[[str], Any]) -> Any:
    return bench("soak_clients")


@pytest.fixture
def report(reports: Any) -> Any:
    """A run in which everything holds."""
    seen = reports.Seen({"patient": 90, "leaves": 10}, 88, 2, 10, 4, ())
    ends = {"length": 85, "stop": 5, "cancelled": 7}
    counted = reports.Counted(
        queued=97,
        ended=ends,
        faults=(),
        running=0,
        waiting=0,
        success={"length": 85, "stop": 5},
        failure={"cancelled": 7},
        refused={"queue_full": 5},
    )
    samples = tuple(
        reports.Sample(n, 200 * MIB + n, 68, 8) for n in (250, 500, 750)
    )
    return reports.Report(
        started_utc="2026-11-30T12:00:00Z",
        machine=Machine("CPU", 2, 2**34, "Linux", "x86_64"),
        software={"python": "3.11"},
        requests=100,
        clients=3,
        max_waiting=1,
        seed=1,
        seconds=2.5,
        seen=seen,
        counted=counted,
        served_after=True,
        samples=samples,
    )


def failed(reports: Any, report: Any) -> list[str]:
    found = [check for check in reports.checks(report) if not check.holds]
    lines = list(reports.check_lines(report))
    assert sum(line.startswith("FAILS") for line in lines) == len(found)
    return [check.name for check in found]


def test_a_good_run_holds(reports: Any, report: Any) -> None:
    assert failed(reports, report) == []
    assert reports.slope(report.samples) == pytest.approx(1.0)


COUNTED: list[tuple[dict[str, Any], str]] = [
    ({"queued": 98}, "every accepted request"),
    ({"faults": ("Done outside a request",)}, "every accepted request"),
    ({"running": 1}, "no slot is stuck"),
    ({"waiting": 1}, "no slot is stuck"),
    ({"success": {"length": 85}}, "/metrics agrees"),
    ({"failure": {"cancelled": 6}}, "/metrics agrees"),
    ({"refused": {"queue_full": 3}}, "/metrics agrees"),
    ({"refused": {"queue_full": 15}}, "/metrics agrees"),
]


@pytest.mark.parametrize(("change", "name"), COUNTED)
def test_what_the_server_counted_wrongly(
    reports: Any, report: Any, change: dict[str, Any], name: str
) -> None:
    counted = replace(report.counted, **change)
    (found,) = failed(reports, replace(report, counted=counted))
    assert found.startswith(name)


@pytest.mark.parametrize(
    ("ends", "good"),
    [
        ({"length": 88, "cancelled": 10}, True),
        ({"length": 88}, True),
        ({"length": 98}, True),
        ({"length": 87, "cancelled": 7}, False),
        ({"length": 99}, False),
        ({"length": 88, "cancelled": 11}, False),
        ({"length": 88, "generation_failed": 1}, False),
    ],
)
def test_how_requests_ended(
    reports: Any, report: Any, ends: dict[str, int], good: bool
) -> None:
    counted = replace(report.counted, queued=sum(ends.values()), ended=ends)
    found = failed(reports, replace(report, counted=counted))
    assert ("clients and engine agree on how requests ended" in found) != good


def test_what_clients_saw(reports: Any, report: Any) -> None:
    seen = replace(report.seen, wrong=("slow /stream: cut off",))
    changed = replace(report, seen=seen)
    assert failed(reports, changed) == ["every client got what it asked for"]
    assert "slow /stream: cut off" in reports.as_text(changed)
    nobody = replace(report, served_after=False)
    assert failed(reports, nobody) == ["no slot is stuck"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"threads": 69}, "threads do not grow"),
        ({"files": 9}, "open files do not grow"),
        ({"rss_bytes": 205 * MIB}, "memory does not grow"),
    ],
)
def test_growth(
    reports: Any, report: Any, change: dict[str, int], name: str
) -> None:
    *before, last = report.samples
    samples = (*before, replace(last, **change))
    assert failed(reports, replace(report, samples=samples)) == [name]


def test_a_report_on_disk(reports: Any, report: Any) -> None:
    text = reports.to_text(report)
    assert reports.from_json(documents.parse(text)) == report
    with pytest.raises(LabError, match="lacks 'seen'"):
        document = documents.parse(text)
        del document["seen"]
        reports.from_json(document)


def test_plans_have_their_shares(clients: Any) -> None:
    made = clients.plans(2000, seed=1)
    counts = {
        name: sum(plan.behaviour == name for plan in made)
        for name in ("leaves", "malformed", "slow", "patient")
    }
    assert counts == {
        "leaves": 200,
        "malformed": 100,
        "slow": 40,
        "patient": 1660,
    }
    assert {plan.form for plan in made} >= set(clients.FORMS)
    bad = {name for name, *_ in clients.BAD}
    assert {p.form for p in made if p.behaviour == "malformed"} == bad
    assert made == clients.plans(2000, seed=1) != clients.plans(2000, seed=2)


def test_answers_to_one_prompt_must_begin_alike(clients: Any) -> None:
    def outcome(prompt: str, *ids: int) -> Any:
        plan = clients.Plan("patient", "/stream", prompt, len(ids))
        return clients.Outcome(plan, "answered", ids=ids)

    good = [outcome("a", 1, 2), outcome("b", 7), outcome("a", 1, 2, 3)]
    assert clients.disagreements(good) == []
    bad = clients.disagreements([*good, outcome("a", 1, 7)])
    assert bad == ["another answer to 'a'"]


OPENAI = '{"choices": [%s], "usage": {"completion_tokens": 2}}'
REASON = '{"finish_reason": "length"}'


def test_the_end_of_a_stream_of_openais(clients: Any) -> None:
    token, end = OPENAI % '{"finish_reason": null}', OPENAI % REASON
    usage = OPENAI % ""
    assert clients._openai([token, end, usage, "[DONE]"]) == 2
    for broken in (
        [token, end, usage],
        [token, usage, "[DONE]"],
        [token, end, "[DONE]"],
        [token, end, end, usage, "[DONE]"],
        [token, end, "[DONE]", usage],
    ):
        with pytest.raises(ValueError):
            clients._openai(broken)


def test_the_audit_sees_what_may_not_happen(
    bench: Callable[[str], Any],
) -> None:
    audit = bench("soak_server").Audit()
    one, other = Timeline(1, 0), Timeline(1, 0)
    done = Done(2, "length")
    events: list[tuple[Timeline, Event]] = [
        (one, Queued(0, 0)),
        (other, Queued(0, 1)),
        (one, Started(1, 0)),
        (one, Token(1, 1)),
        (one, done),
        (other, Failed(1, Refusal(499, "cancelled", "Off."))),
    ]
    for before, event in events:
        audit.note(before, event)
    assert (audit.queued, audit.open, audit.faults) == (2, 0, [])
    assert audit.ended == {"length": 1, "cancelled": 1}
    audit.note(one, done)
    audit.note(one, Token(1, 3))
    audit.note(one, Queued(4, 0))
    audit.note(one, Queued(4, 0))
    assert audit.faults == [
        f"{kind} outside a request" for kind in ("Done", "Token", "Queued")
    ]
    assert audit.ended == {"length": 1, "cancelled": 1}
    assert audit.open == 1


def test_the_page_is_the_rendered_result(reports: Any) -> None:
    (path,) = RESULTS
    report = reports.from_json(documents.read(path))
    page = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    assert reports.as_markdown(report) in page


def test_the_kept_run_is_whole_and_holds(reports: Any) -> None:
    (path,) = RESULTS
    report = reports.from_json(documents.read(path))
    assert report.requests >= 2000
    assert failed(reports, report) == []
