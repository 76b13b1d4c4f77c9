"""Figures, tables, CSV, pages and pictures of a load test."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit import load_plots, plots
from labkit.errors import LabError
from labkit.loadtest import (
    charts,
    evidence,
    recorder,
    report,
    tables,
    verify,
)
from labkit.loadtest.rates import Objectives
from labkit.loadtest.records import Arrival, Counted, Record

MS = 1_000_000


def answered(
    name: str,
    sent: int,
    tokens: list[int],
    failure: str | None = None,
    queued: tuple[int, int] | None = None,
) -> Record:
    """A record of single tokens; all times in ms."""
    arrivals = [Arrival(t * MS, "token", (1,), 1) for t in tokens]
    end = tokens[-1] if tokens else sent + 1
    if failure is None:
        arrivals.append(Arrival(end * MS, "done", (), 0, end * MS))
    begin, start = queued or (sent, sent)
    return Record(
        name,
        sent * MS,
        end * MS,
        arrivals=tuple(arrivals),
        failure=failure,
        new_tokens=len(tokens),
        counted="ids",
        queued_ns=begin * MS,
        start_ns=start * MS,
    )


def test_figures_of_a_group_by_hand() -> None:
    records = [
        answered("m000", 0, [100, 120, 140]),
        answered("m001", 50, [350, 370], queued=(51, 151)),
        answered("m002", 60, [90], failure="no_terminal_event"),
    ]
    bounds = Objectives(ttft_ms=200.0)
    made = report.group([records], bounds)
    assert (made["requests"], made["failed"]) == (3, 1)
    assert made["failure_rate"] == 1 / 3
    assert made["failures"] == {"no_terminal_event": 1}
    assert made["output_tokens"] == 5
    assert made["window_s"] == 0.37
    assert made["output_tokens_per_s"] == 5 / 0.37
    assert made["requests_per_s"] == 2 / 0.37
    assert (made["met"], made["share_met"]) == (1, 1 / 3)
    assert made["goodput_per_s"] == 1 / 0.37
    assert made["ttft_ms"]["p50"] == 200.0
    assert made["ttft_ms"]["p99"] is None
    assert made["itl_ms"]["count"] == 3
    assert made["itl_ms"]["maximum"] == 20.0
    assert made["queue_ms"]["maximum"] == 100.0
    assert made["inter_chunk_ms"]["count"] == 0


def test_windows_of_segments_are_summed() -> None:
    """The time between two segments is nobody's; clocks may differ."""
    first = [answered("m000", 0, [100, 200])]
    second = [answered("m001", 5, [105, 305])]
    made = report.group([first, second], Objectives())
    assert made["window_s"] == 0.5
    assert made["output_tokens_per_s"] == 8.0


def test_no_request_gives_no_number() -> None:
    made = report.group([], Objectives())
    assert made["requests"] == 0
    for name in ("failure_rate", "window_s", "share_met", "goodput_per_s"):
        assert made[name] is None
    assert report.achieved_per_s([]) is None


def test_asked_and_achieved_rate() -> None:
    """Five sends 100 ms apart: 10 a second, whatever was asked for."""
    sends = [answered(f"m{n}", 100 * n, [100 * n + 5]) for n in range(5)]
    assert report.achieved_per_s([sends]) == 10.0
    assert report.achieved_per_s([sends[:1]]) is None
    # The pause between two segments counts for nothing.
    assert report.achieved_per_s([sends[:3], sends[3:]]) == 10.0


def test_number_in_flight_over_segments() -> None:
    first = [answered("a", 0, [100]), answered("b", 0, [100])]
    second = [answered("c", 1000, [1100])]
    made = report._in_flight([first, second], report.rates.client_spans)
    assert made == {"mean": 1.5, "peak": 2}


def test_the_verifier_agrees_on_many_runs(tmp_path: Path, tools: Any) -> None:
    """With failures, in both loops, with more than 100 gaps, and bounds."""
    for number, (plan, failing) in enumerate(
        [
            (tools.plan(requests=12, new_tokens=12), ("m003", "m013")),
            (tools.plan(requests=12, open_loop=True), ("m014",)),
            (tools.plan(requests=3, new_tokens=1), ()),
            (tools.plan(requests=2), ("m000", "m001", "m002", "m003")),
        ]
    ):
        bounds = Objectives(ttft_ms=0.4, tpot_ms=0.3)
        folder = tmp_path / str(number)
        tools.run(folder, replace(plan, objectives=bounds), failing=failing)
        assert verify.examine(folder)[0] == verify.COMPLETE


@pytest.mark.parametrize("open_loop", [False, True])
@pytest.mark.parametrize("new_tokens", [1, 3])
@pytest.mark.parametrize("name", [f.name for f in fields(Objectives)])
def test_every_objective_is_judged_alike(
    tmp_path: Path, tools: Any, name: str, new_tokens: int, open_loop: bool
) -> None:
    """Undefined is missed; TPOT of one token is not judged."""
    bounds = Objectives(**{name: 1e9})
    plan = tools.plan(open_loop=open_loop, new_tokens=new_tokens)
    folder = tmp_path / "run"
    tools.run(folder, replace(plan, objectives=bounds))
    assert verify.examine(folder)[0] == verify.COMPLETE
    made = json.loads((folder / evidence.REPORT).read_bytes())
    closed = made["configurations"]["two clients"]["all"]["met"]
    assert closed == (0 if name == "ttft_from_schedule_ms" else 3)
    if open_loop:
        assert made["configurations"]["open"]["all"]["met"] == 3


def test_a_report_that_breaks_a_law_is_not_made(folder: Path) -> None:
    found = evidence.load(folder)
    runs = [
        replace(run, record=replace(run.record, end_ns=0))
        for run in found.runs
    ]
    with pytest.raises(LabError, match="No report is made"):
        report.figures(replace(found, runs=tuple(runs)))


@st.composite
def any_record(draw: st.DrawFn, name: str) -> Record:
    """Chunks of several tokens, failures, servers that say little."""
    steps = st.integers(0, 10**10)
    now = sent = draw(st.integers(0, 10**14))
    arrivals = []
    queued = start = None
    if draw(st.booleans()):
        queued = draw(steps)
        start = queued + draw(steps)
    for _ in range(draw(st.integers(1, 6))):
        now += draw(st.sampled_from([0, 1]) | steps)
        tokens = draw(st.integers(1, 3))
        arrivals.append(Arrival(now, "token", (1,) * tokens, tokens))
    failure = draw(st.sampled_from([None, None, "timeout", "error_event"]))
    counted: Counted = draw(st.sampled_from(["ids", "usage", "chunks"]))
    count: int | None = sum(arrival.tokens for arrival in arrivals)
    if counted != "ids":
        count = draw(st.sampled_from([None, count, 2, 7]))
    if failure is None:
        stamp = None if start is None else start + draw(steps)
        arrivals.append(Arrival(now, "done", server_ns=stamp))
    return Record(
        name,
        sent,
        now + draw(steps),
        connected_ns=draw(st.sampled_from([None, sent])),
        arrivals=tuple(arrivals),
        failure=failure,
        new_tokens=count,
        counted=counted,
        queued_ns=queued,
        start_ns=start,
    )


@given(data=st.data(), cut=st.integers(0, 8))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_reporter_and_verifier_agree_on_any_records(
    tools: Any,
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    cut: int,
) -> None:
    """To the last bit, in one segment or two, with one code and the other."""
    folder = tmp_path_factory.mktemp("any") / "run"
    bounds = Objectives(ttft_ms=1000.0, tpot_ms=200.0, e2e_ms=5e3)
    plan = replace(tools.plan(requests=4), objectives=bounds)
    evidence.create(folder, plan, tools.about)
    requests = [each for each in plan.requests if each.phase == "measured"]
    warmups = [each for each in plan.requests if each.phase == "warmup"]
    parts = [[*warmups, *requests[:cut]], requests[cut:]]
    for segment, part in enumerate(parts, 1):
        with recorder.Recorder(folder, segment) as writing:
            writing.start(0)
            for planned in part:
                record = data.draw(any_record(planned.request))
                writing.sent(planned.request, record.sent_ns)
                for arrival in record.arrivals:
                    writing.arrived(planned.request, arrival)
                writing.finished(record, planned)
            writing.end(1, "complete")
    report.finish(folder)
    status, sentences = verify.examine(folder)
    assert status == verify.COMPLETE, sentences
    assert evidence.load(folder).complete


def test_csv_has_every_figure(folder: Path) -> None:
    made = json.loads((folder / evidence.REPORT).read_bytes())
    rows = list(csv.reader(io.StringIO(report.as_csv(made))))
    assert rows[0] == ["configuration", "figure", "value"]
    values = {(name, figure): value for name, figure, value in rows[1:]}
    p50 = made["configurations"]["one client"]["all"]["ttft_ms"]["p50"]
    assert json.loads(values["one client", "all.ttft_ms.p50"]) == p50
    assert values["one client", "peak_rss_bytes"] == "null"


def test_the_failure_rate_stands_beside_every_latency(
    tmp_path: Path, tools: Any
) -> None:
    folder = tools.run(
        tmp_path / "run", tools.plan(requests=4), failing=("m000", "m001")
    )
    found = evidence.load(folder)
    made = report.figures(found)
    part = made["configurations"]["two clients"]["all"]
    head, *rows = tables.latencies(part)
    assert head[-1] == "failed"
    assert [row[-1] for row in rows] == ["50.0%"] * len(rows)
    assert len(rows) >= 4
    overview = tables.overview(made)
    assert [row[2] for row in overview] == ["failed", "50.0%", "0.0%"]
    text = tables.as_text(found, made)
    assert "two clients: 2 x error_event: the server sent an error" in text
    assert "PARTIAL" not in text


def test_a_partial_run_is_never_shown_as_complete(
    tmp_path: Path, tools: Any
) -> None:
    folder = tmp_path / "run"
    evidence.create(folder, tools.plan(), tools.about)
    found = evidence.load(folder)
    made = report.figures(found)
    assert "PARTIAL" in tables.as_text(found, made)
    assert "PARTIAL" in tables.as_page(found, made, [])


def test_what_a_reader_must_know(tmp_path: Path, tools: Any) -> None:
    folder = tools.run(tmp_path / "run", tools.plan(open_loop=True))
    found = evidence.load(folder)
    made = report.figures(found)
    made["configurations"]["open"]["client_stalled"] = True
    made["segments"] = 2
    said = "\n".join(tables.remarks(found, made))
    assert "open: asked for 500.000 requests/s, sent " in said
    assert "the client itself was held up" in said
    assert "in 2 segments" in said


def test_answers_in_one_burst_are_flagged(folder: Path) -> None:
    found = evidence.load(folder)
    runs = []
    for run in found.runs:
        seen = [replace(a, time_ns=10**18) for a in run.record.arrivals]
        slow = [replace(a, server_ns=5 * n * MS) for n, a in enumerate(seen)]
        record = replace(
            run.record,
            arrivals=tuple(slow),
            prompt_tokens=7,
            end_ns=10**18,
            queued_ns=0,
        )
        runs.append(replace(run, record=record))
    changed = replace(found, runs=tuple(runs))
    said = "\n".join(tables.remarks(changed, report.figures(changed)))
    assert "two clients: 2 answers came in one burst: not streamed" in said
    assert "other prompt tokens than were sent in 2 requests" in said


def test_a_page_needs_nothing_else(folder: Path) -> None:
    found = evidence.load(folder)
    pictures = charts.pictures(found)
    assert len(pictures) == 4
    for png, caption, alt in pictures:
        assert png.startswith(b"\x89PNG")
        assert caption.endswith(".")
        assert len(alt) > 20
    page = tables.as_page(found, report.figures(found), pictures)
    assert page.count("<img ") == page.count(' alt="') == 4
    assert "http" not in page
    assert "failed" in page


def test_the_time_line_has_a_row_a_request_and_a_mark_a_token() -> None:
    records = [
        answered("m000", 0, [100, 120, 140], queued=(5, 40)),
        answered("m001", 50, [], failure="timeout"),
        answered("m002", 60, [90], queued=(1, 2)),  # another clock
    ]
    axes = load_plots.requests_over_time(records, "three")
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == ["m000", "m001 (timeout)", "m002"]
    legend = axes.get_legend()
    assert legend is not None
    names = {text.get_text() for text in legend.get_texts()}
    assert names == {
        "on the way",
        "queue",
        "prefill",
        "decode",
        "no token",
        "until the first token",
        "token",
    }
    plots.png(plots.figure_of(axes))


def test_an_ecdf_has_a_step_for_every_observation() -> None:
    series = {"a": [1.0, 2.0, 4.0], "b": [3.0], "none": []}
    axes = load_plots.ecdfs(series, "title", "ms")
    assert len(axes.lines) == 2
    steps = np.asarray(axes.lines[0].get_ydata(), dtype=float)
    assert steps.max() == pytest.approx(1.0)
    assert len(set(steps.tolist())) == 4
    assert [line.get_label() for line in axes.lines] == [
        "a (n = 3)",
        "b (n = 1)",
    ]
    plots.png(plots.figure_of(axes))
