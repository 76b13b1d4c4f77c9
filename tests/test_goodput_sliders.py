"""Controls over objectives: what they show and what they do."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from labkit import goodput_sliders
from labkit.goodput_sliders import Runs
from labkit.loadtest.rates import Objectives
from labkit.loadtest.records import Arrival, Record

MS = 1_000_000
OBJECTIVES = Objectives(ttft_ms=200, tpot_ms=50)


def record(name: str, ttft_ms: int | None, gap_ms: int = 40) -> Record:
    """An answer of two tokens, or a refusal."""
    if ttft_ms is None:
        return Record(name, 0, MS, failure="http_429", status=429)
    at = [ttft_ms * MS, (ttft_ms + gap_ms) * MS]
    tokens = tuple(Arrival(t, "token", (1,), 1) for t in at)
    return Record(name, 0, at[-1], arrivals=tokens, new_tokens=2)


@pytest.fixture
def runs() -> Runs:
    """At 8 requests/s more are answered, at 4 more are in time."""
    return {
        "all wait": {
            8.0: [record(f"m{k}", 100 + 100 * k) for k in range(10)],
            4.0: [record(f"m{k}", 100, 40 + 20 * (k % 2)) for k in range(6)],
        },
        "refuses": {8.0: [record("a", 100), record("b", None)]},
    }


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_rows_of_a_server(runs: Runs) -> None:
    _, *found = goodput_sliders.rows(runs["all wait"], OBJECTIVES)
    # 3 in 160 ms, 2 in 1,040 ms
    assert found == [
        ("4.0", "6", "0", "3", "50%", "18.8 (highest)"),
        ("8.0", "10", "0", "2", "20%", "1.9"),
    ]


def test_a_failure_counts_among_all(runs: Runs) -> None:
    _, found = goodput_sliders.rows(runs["refuses"], OBJECTIVES)
    assert found[1:5] == ("2", "1", "1", "50%")


def test_nothing_in_time_has_no_highest(runs: Runs) -> None:
    _, *found = goodput_sliders.rows(runs["all wait"], Objectives(ttft_ms=1))
    assert [row[3] for row in found] == ["0", "0"]
    assert not any("highest" in row[-1] for row in found)


def test_moving_a_control_judges_the_records_anew(runs: Runs) -> None:
    form = goodput_sliders.form(runs, OBJECTIVES)
    server, ttft, tpot, said = form.children
    assert "50%" in words(said.value)
    tpot.value = math.inf
    assert "6 100%" in words(said.value)
    ttft.value = math.inf
    assert "10 100%" in words(said.value)
    server.value = "refuses"
    assert "2 1 1 50%" in words(said.value)


def test_a_control_for_each_bound_that_was_set(runs: Runs) -> None:
    form = goodput_sliders.form(runs, Objectives(e2e_ms=300))
    assert [child.description for child in form.children[:-1]] == [
        *("server", "E2E up to")
    ]


def test_choices_are_around_the_bound() -> None:
    found = [value for _, value in goodput_sliders.choices(200)]
    *numbers, last = found
    assert last == math.inf
    assert 200 in numbers
    assert numbers == sorted(numbers)
    assert numbers[0] == pytest.approx(40)
    assert numbers[-1] == pytest.approx(1000)
    texts = [text for text, _ in goodput_sliders.choices(200)]
    assert len(set(texts)) == len(texts)


def test_a_reader_without_a_kernel_sees_every_server(runs: Runs) -> None:
    text = goodput_sliders.as_text(runs, OBJECTIVES)
    page = words(goodput_sliders.as_html(runs, OBJECTIVES))
    for form in (text, page):
        assert "TTFT up to 200 ms, TPOT up to 50 ms" in form
        assert "all wait" in form
        assert "refuses" in form
        assert "18.8 (highest)" in form


def test_shown_with_text_beside_the_widget(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw: shown.append(data)
    )
    goodput_sliders.show(runs, OBJECTIVES)
    (data,) = shown
    assert data["text/plain"] == goodput_sliders.as_text(runs, OBJECTIVES)
    assert data["text/html"] == goodput_sliders.as_html(runs, OBJECTIVES)
    assert "application/vnd.jupyter.widget-view+json" in data
