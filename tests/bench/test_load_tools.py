"""What is read of the reports of load tools, and how cases judge them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from labkit import documents
from labkit.errors import LabError
from labkit.loadtest.playing import Played, Write
from labkit.loadtest.records import Arrival, Record

MS = 1_000_000


@pytest.fixture(scope="module")
def tools(bench: Callable[[str], Any]) -> Any:
    return bench("load_tools")


@pytest.fixture(scope="module")
def cases(bench: Callable[[str], Any]) -> Any:
    return bench("tool_cases")


@pytest.fixture(scope="module")
def loadgen(bench: Callable[[str], Any]) -> Any:
    return bench("loadgen_tools")


@pytest.fixture(scope="module")
def reports(bench: Callable[[str], Any]) -> Any:
    return bench("tool_report")


def of_guidellm(*requests: dict[str, Any], failed: int = 0) -> dict[str, Any]:
    """A report with what is read of it; times in ms, as it gives them."""
    good = {"mean": 1.0, "median": 2.0, "percentiles": {"p95": 3.0}}
    names = (
        *("time_to_first_token_ms", "inter_token_latency_ms"),
        "time_per_output_token_ms",
    )
    metrics: dict[str, Any] = {
        name: {"successful": good if requests else None} for name in names
    }
    metrics["request_totals"] = {
        "successful": len(requests),
        "errored": failed,
        "incomplete": 0,
    }
    metrics["requests_per_second"] = {"successful": {"mean": 4.0}}
    benchmark = {
        "config": {"strategy": {"rate": 5.0}},
        "requests": {"successful": list(requests) or None},
        "metrics": metrics,
        "warnings": [],
    }
    version = {"guidellm_version": "0.8.1"}
    return {"metadata": version, "benchmarks": [benchmark]}


REQUEST = {
    "time_to_first_token_ms": 100.0,
    "inter_token_latency_ms": 20.0,
    "time_per_output_token_ms": 46.7,
    "request_latency": 0.14,
    "request_scheduled_latency": 0.2,
    "request_start_time": 1000.5,
    "prompt_tokens": 7,
    "output_tokens": 3,
}


def test_a_report_of_guidellm(tools: Any) -> None:
    single = REQUEST | {
        "inter_token_latency_ms": None,
        "request_start_time": 1002.0,
    }
    report = tools.read_guidellm(of_guidellm(REQUEST, single, failed=3))
    assert (report.tool, report.version) == ("guidellm", "0.8.1")
    assert (report.succeeded, report.failed) == (2, 3)
    assert report.ttft_ms == (100.0, 100.0)
    assert report.itl_ms == report.gap_ms == (20.0,)
    assert report.tpot_ms == (46.7, 46.7)
    assert report.e2e_ms == (140.0, 140.0)
    assert report.scheduled_ms == (200.0, 200.0)
    assert report.start_s == (0.0, 1.5)
    assert report.new_tokens == (3, 3)
    assert report.median_ttft_ms == 2.0
    assert (report.asked_per_s, report.achieved_per_s) == (5.0, 4.0)
    assert report.ttft_name == "time_to_first_token_ms"
    assert report.printed["TTFT p95 (ms)"] == 3.0
    warm = tools.read_guidellm(of_guidellm(REQUEST, single, failed=3), 1)
    assert (warm.succeeded, warm.failed) == (1, 3)
    assert (warm.ttft_ms, warm.itl_ms) == ((100.0,), ())


def test_a_report_of_guidellm_where_all_failed(tools: Any) -> None:
    report = tools.read_guidellm(of_guidellm(failed=2))
    assert (report.succeeded, report.failed) == (0, 2)
    assert report.ttft_ms == ()
    assert report.median_ttft_ms is None


def metric(*values: float) -> dict[str, Any]:
    return {"mean": sum(values) / len(values), "std": 0, "values": [*values]}


def test_a_report_of_llama_benchy(tools: Any) -> None:
    run = {
        "e2e_ttft": metric(90, 110),
        "ttfr": metric(5, 5),
        "tg_req_throughput": metric(50),
        "peak_throughput": None,
    }
    ends = [
        {"prompt_tokens": 9, "total_tokens": 3, "error": ""},
        {"prompt_tokens": 9, "total_tokens": 1, "error": ""},
        {"prompt_tokens": 0, "total_tokens": 0, "error": "HTTP 503"},
    ]
    events = [{"type": "header"}, *({"type": "request_end"} | e for e in ends)]
    report = tools.read_llama_benchy(
        {"version": "0.4.0", "benchmarks": [run]}, events
    )
    assert (report.succeeded, report.failed) == (2, 1)
    assert report.ttft_ms == (90, 110)
    assert report.tpot_ms == report.gap_ms == (20.0,)
    assert report.itl_ms is None
    assert report.new_tokens == (3, 1)
    assert report.peak_tokens_per_s == ()
    warm = tools.read_llama_benchy(
        {"version": "0.4.0", "benchmarks": [run]}, events, 1
    )
    assert (warm.succeeded, warm.failed) == (1, 1)
    assert (warm.ttft_ms, warm.new_tokens) == ((110,), (1,))
    assert report.printed["e2e_ttft mean"] == 100


STUB = """
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
assert os.environ["HF_HUB_OFFLINE"] == "1"
where = Path(words[words.index("--save-result") + 1])
book = next(Path.home().glob(".cache/llama-benchy/*.txt")).read_text()
run = {"e2e_ttft": None, "ttfr": None, "tg_req_throughput": None,
       "peak_throughput": None}
said = {"version": book.strip(), "benchmarks": [run]}
where.write_text(json.dumps(said))
events = Path(words[words.index("--emit-progress") + 1])
events.write_text(json.dumps({"type": "header"}) + "\\n")
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module in llama-benchy's place, and none that works
    in guidellm's."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "llama_benchy.py").write_text(STUB, encoding="utf-8")
    (modules / "guidellm.py").write_text(
        "print('no such option')", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(modules))
    return tmp_path


def test_a_tool_is_run_with_a_book_of_ours(tools: Any, fake: Path) -> None:
    load = tools.Load("http://127.0.0.1:9", "m", fake, book="a book")
    report = tools.run_llama_benchy(Path(sys.executable), load, fake)
    assert report.version == "a book"
    assert (report.succeeded, report.ttft_ms) == (0, ())


def test_a_tool_without_a_report_is_quoted(tools: Any, fake: Path) -> None:
    load = tools.Load("http://127.0.0.1:9", "m", fake)
    with pytest.raises(LabError, match="no such option"):
        tools.run_guidellm(Path(sys.executable), load, fake)
    with pytest.raises(LabError, match="did not run to its end"):
        tools.run_guidellm(fake / "no-python", load, fake)


@pytest.mark.parametrize(
    ("options", "profile"),
    [
        ({}, "kind=synchronous"),
        ({"clients": 4}, "kind=concurrent,streams=4"),
        (
            {"clients": 4, "rate_per_s": 10},
            "kind=constant,rate=10,max_concurrency=4",
        ),
    ],
)
def test_the_load_of_guidellm(
    tools: Any, options: dict[str, Any], profile: str
) -> None:
    load = tools.Load("http://h:1", "m", Path("t"), **options)
    command = tools.guidellm_command(Path("python"), load, Path("r.json"))
    assert command[command.index("--profile") + 1] == profile


def test_llama_benchy_sends_as_many_requests(tools: Any) -> None:
    load = tools.Load("http://h:1", "m", Path("t"), requests=8, clients=4)
    words = tools.llama_benchy_command(
        Path("python"), load, Path("r"), Path("e")
    )
    asked = dict(pairwise(words))
    assert (asked["--concurrency"], asked["--runs"]) == ("4", "2")


def test_the_verdicts_of_a_case(tools: Any, cases: Any) -> None:
    case = cases.Case(
        7, "x", (cases.GOOD,), {"ttft_ms": (100, 315), "failed": (1,)}
    )

    def judge(**said: Any) -> str:
        fields = {"succeeded": 2, "failed": 1} | said
        verdict: str = case.judge(tools.ToolReport("t", "1", **fields))[0]
        return verdict

    assert judge(ttft_ms=(316.0, 101.0)) == "right"
    assert judge(ttft_ms=(100.0,)) == "wrong"
    assert judge(ttft_ms=(100.0, 330.0)) == "wrong"
    assert judge(ttft_ms=(100.0, 315.0), failed=0) == "wrong"
    assert judge() == "not said"


def test_what_cases_derive_of_a_report(tools: Any, cases: Any) -> None:
    report = tools.ToolReport(
        *("t", "1", 1, 0),
        scheduled_ms=(1000.0, 3000.0),
        start_s=(0.0, 5.0),
        ttft_name="e2e_ttft",
    )
    assert cases.said(report, "mean_scheduled_s") == (2.0,)
    assert cases.said(report, "span_s") == (5.0,)
    assert cases.said(report, "not_streamed") is None
    assert cases.said(report, "unit_in_name") == (0.0,)
    assert cases.said(report, "succeeded") == (1.0,)


def test_every_case_has_another_name_and_asks_for_its_tokens(
    cases: Any,
) -> None:
    names = [case.name for case in cases.CASES]
    assert len(set(names)) == len(names)
    for case in cases.CASES:
        assert len(case.whole_script()) == case.requests + case.warm_up
    by_name = {case.name: case.new_tokens for case in cases.CASES}
    assert by_name["several tokens in a chunk"] == 7
    assert by_name["status 200, and no token"] == 1


def test_the_courses_own_report(loadgen: Any) -> None:
    def token(at_ms: float) -> Arrival:
        return Arrival(round(at_ms * MS), "token", tokens=1)

    arrivals = (token(105), token(125), Arrival(126 * MS, "done"))
    good = Record("a", 5 * MS, 126 * MS, due_ns=0, arrivals=arrivals)
    bad = Record("b", 0, MS, failure="http_503", status=503)
    report = loadgen.report_of([good, bad], 5.0)
    assert report.version
    assert report.asked_per_s == 5.0
    assert report.achieved_per_s == pytest.approx(8)
    assert report.ttft_name == "ttft_ms"
    assert (report.succeeded, report.failed) == (1, 1)
    assert report.ttft_ms == (100.0,)
    assert report.itl_ms == report.tpot_ms == (20.0,)
    assert report.new_tokens == (2,)
    assert report.median_ttft_ms == 100.0


def delayed(writes: list[Write], by_ms: int) -> list[Write]:
    return [
        Write(w.do, w.tokens, w.due_ns, w.write_ns + by_ms * MS)
        for w in writes
    ]


def test_errors_are_against_what_was_played(tools: Any, loadgen: Any) -> None:
    writes = [
        Write("start", 0, 10 * MS, 10 * MS),
        Write("tokens", 1, 210 * MS, 211 * MS),
        Write("tokens", 1, 230 * MS, 231 * MS),
        Write("tokens", 1, 250 * MS, 251 * MS),
    ]
    truth = [
        Played("", 0, 5 * MS, 10 * MS, delayed(writes, 99)),  # is left out
        Played("", 0, 6 * MS, 10 * MS, delayed(writes, 3)),
        Played("", 0, 6 * MS, 10 * MS, writes),  # on the same connection
    ]
    report = tools.ToolReport(
        *("labkit", "", 3, 0),
        ttft_ms=(0.0, 209.5, 202.0),
        tpot_ms=(0.0, 20.5, 20.0),
    )
    errors = loadgen.errors(report, truth, 1)
    assert errors.ttft_ms == [1.0, 1.5]  # 201 and 208
    assert errors.gap_ms == [0.0, 0.5]
    assert errors.late_ms == pytest.approx(4.0)
    assert errors.failed == 0
    short = tools.ToolReport("labkit", "", 3, 0, tpot_ms=(0.0, 20.0))
    assert loadgen.errors(short, truth, 1).gap_ms == []


def a_run(**changes: Any) -> dict[str, Any]:
    run = {"round": 1, "tool": "labkit", "events_per_s": 2500.0}
    run |= {"played_gap_ms": 20.0, "failed": 0, "late_ms": 20.0}
    return run | {"ttft_ms": [1.0, -3.0], "gap_ms": [0.5, 1.5]} | changes


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"gap_ms": [1.0, 1.2]}, False),
        ({"gap_ms": [-1.0, -1.2]}, False),
        ({"gap_ms": []}, False),
        ({"failed": 1}, False),
        ({"late_ms": 20.1}, False),
    ],
)
def test_who_keeps_up(
    reports: Any, changes: dict[str, Any], kept: bool
) -> None:
    assert reports.keeps_up(a_run(**changes)) is kept


def test_a_tool_that_ended_early_does_not_keep_up(reports: Any) -> None:
    run = {"played_gap_ms": 20.0, "error": "it ended"}
    assert not reports.keeps_up(run)


def test_the_most_events_need_all_lower_rates(reports: Any) -> None:
    runs = [
        a_run(),
        a_run(events_per_s=5000.0),
        a_run(events_per_s=5000.0, failed=1),
        a_run(events_per_s=10000.0),
        a_run(tool="guidellm", failed=1),
    ]
    assert reports.most_events_per_s(runs, "labkit") == 2500
    assert reports.most_events_per_s(runs, "guidellm") is None


@pytest.fixture
def document(reports: Any) -> dict[str, Any]:
    context = {
        "machine": {
            "cpu": "A CPU",
            "cores": 2,
            "ram_bytes": 8,
            "system": "Linux",
            "architecture": "x86_64",
        },
        "software": {},
        "tools": {"guidellm": "0.8.1"},
        "protocol": {"name": "p, version 1", "rounds": 2},
        "started_utc": "2026-01-01T00:00:00Z",
        "seconds": 9,
        "load_before": 0.25,
        "load_after": None,
    }
    right, wrong = ["right", ""], ["wrong", "y 1"]
    cases = [
        {
            "number": 4,
            "name": "x",
            "verdicts": {
                "labkit": right,
                "guidellm": wrong,
                "llama-benchy": ["not said", ""],
            },
        }
    ]
    ended = {"round": 1, "tool": "guidellm", "events_per_s": 2500.0}
    ended |= {"played_gap_ms": 20.0, "error": "it ended"}
    runs = [a_run(), ended, a_run(tool="llama-benchy")]
    return {
        "schema": reports.SCHEMA,
        "version": reports.VERSION,
        "cases": context | {"found": cases},
        "streams": context | {"found": runs},
    }


def test_the_result_as_markdown(
    reports: Any, document: dict[str, Any]
) -> None:
    text = reports.as_markdown(document)
    assert "A CPU, 2 cores" in text
    assert "guidellm 0.8.1" in text
    assert "rounds 2" in text
    assert "load average before and after 0.2 and unknown" in text
    assert "| 4 | x | right | wrong: y 1 | not said |\n" in text
    assert "|  | **right** | 1 of 1 | 0 of 1 | 0 of 1 |\n" in text
    numbers = "2.00 | - | 3.00 | 1.00 | 1.50 | 20.00 | 1 of 1"
    assert f"| 2,500 | labkit | {numbers} |\n" in text
    nothing = "- | - | - | - | - | - | 0 of 1"
    assert f"| 2,500 | guidellm | {nothing} |\n" in text
    assert "guidellm keeps up with: none that was tried" in text
    assert "labkit keeps up with: 2,500, the most that was tried" in text


def test_a_result_is_kept_with_its_numbers_on_a_line(
    reports: Any, document: dict[str, Any]
) -> None:
    text = reports.to_text(document)
    assert '"ttft_ms": [1.0,-3.0]' in text
    assert documents.parse(text) == document


def test_without_the_tools_nothing_is_run(
    loadgen: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("LABKIT_GUIDELLM", "LABKIT_LLAMA_BENCHY"):
        monkeypatch.delenv(name, raising=False)
    out = tmp_path / "out.json"
    assert loadgen.main(["--out", str(out)]) == 0
    assert "was left out" in capsys.readouterr().out
    assert not out.exists()


def test_every_tool_is_tried_once_in_an_order_of_chance(loadgen: Any) -> None:
    tools = {"a": 1, "b": 2, "c": 3}
    orders = {tuple(loadgen._shuffled(tools, str(k))) for k in range(40)}
    assert len(orders) == 6
    assert all(dict(order) == tools for order in orders)
    assert loadgen._shuffled(tools, "x") == loadgen._shuffled(tools, "x")
