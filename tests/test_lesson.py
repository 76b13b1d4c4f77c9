"""What a notebook talks to, without a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit import (
    baselines,
    checkpoints,
    machine,
    predictions,
    records,
    results,
    tables,
)
from labkit.errors import LabError
from labkit.lesson import Lesson, _keep_loopback_direct
from labkit.machine import Speed
from labkit.progress import HEADLESS
from labkit.results import Protocol

Shown = list[dict[str, Any]]
PROTOCOL = Protocol("one-completion", (), 2, 3, 0, "interleaved", 2, None)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What was displayed."""
    seen: Shown = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **_: seen.append(data)
    )
    return seen


@pytest.fixture
def lesson(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Lesson:
    """Lesson 01 with a model that is there and a machine of known speed."""
    monkeypatch.setenv("LABKIT_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setattr(checkpoints, "require", lambda *_, **__: tmp_path)
    monkeypatch.setattr(
        machine, "recent_speed", lambda n: Speed(n, 2e10, 1e11)
    )
    return Lesson("01")


@pytest.mark.usefixtures("lesson")
def test_the_card_names_machine_model_and_baselines(shown: Shown) -> None:
    text = shown[0]["text/plain"]
    for words in ("20.0 GB/s", "100 GFLOP/s", "4-bit grid", "transformers"):
        assert words in text
    assert "to compare with" in text


def test_without_a_model_one_sentence_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    with pytest.raises(LabError, match="python -m labkit fetch") as caught:
        Lesson("01")
    assert len(caught.value._render_traceback_()) == 1


def test_a_record_is_shown_and_stored(lesson: Lesson, shown: Shown) -> None:
    lesson.record("ids", [1, 2], rule="exact")
    stored = records.from_json(shown[-1][records.MIME])
    assert (stored.name, stored.value, stored.rule) == ("ids", [1, 2], "exact")


def test_a_check_stops_the_notebook(
    lesson: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson.check("one is one", True)
    assert capsys.readouterr().out == "holds: one is one\n"
    with pytest.raises(LabError, match="one is two"):
        lesson.check("one is two", False)


def test_a_prediction_is_kept_for_the_next_kernel(
    lesson: Lesson, shown: Shown, tmp_path: Path
) -> None:
    lesson.predict({"completion_s": ("It takes", "s")})
    assert shown[-1]["text/plain"] == "It takes (s): no prediction"
    lesson._keep_prediction("completion_s", 2.5)
    kept = predictions.load(tmp_path / "results" / "01")
    assert kept == {"completion_s": 2.5}
    lesson.predict({"completion_s": ("It takes", "s")})
    assert shown[-1]["text/plain"] == "It takes (s): 2.5"


def test_nobody_is_asked_where_nobody_is(
    lesson: Lesson, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson._keep_prediction("completion_s", 2.5)
    lesson._predictions = {}
    monkeypatch.setenv(HEADLESS, "1")
    lesson.predict({"completion_s": ("It takes", "s")})
    assert shown[-1]["text/plain"] == "It takes (s): no prediction"


def test_compare_shows_all_four_and_saves_the_result(
    lesson: Lesson, shown: Shown, tmp_path: Path
) -> None:
    lesson._keep_prediction("completion_s", 2.5)
    lesson.record("prompt_ids", [1, 2, 3], rule="exact")
    lesson.sample("completion_s", [1.0, 1.1, 0.9], "s")
    lesson.theory("a formula", {"completion_s": 0.5})
    lesson.compare(PROTOCOL, "Figure 1. All.")
    table, picture, caption = shown[-3:]
    line = next(
        line
        for line in table["text/plain"].splitlines()
        if line.startswith("completion_s (s)")
    )
    assert line.split()[2:4] == ["2.5", "1"]
    for words in ("1.86", "theory", "0.5", "another model", "must match"):
        assert words in table["text/plain"]
    assert "image/png" in picture
    assert caption["text/markdown"] == "*Figure 1. All.*"
    (saved,) = results.latest(tmp_path / "results", "01")
    assert saved.theory == {"a formula": {"completion_s": 0.5}}
    assert [b.name for b in baselines.beside(saved, tmp_path)] == ["a formula"]
    assert saved.predictions == {"completion_s": 2.5}
    assert [q.record.name for q in saved.quantities] == [
        "prompt_ids",
        "completion_s",
    ]


def test_a_cell_that_runs_twice_records_once(lesson: Lesson) -> None:
    lesson.record("n", 1)
    lesson.record("n", 2)
    quantities = lesson._result(PROTOCOL, ()).quantities
    assert [q.record.value for q in quantities] == [2]


def test_exercises_are_listed(lesson: Lesson, shown: Shown) -> None:
    lesson.exercises()
    assert "Exercise 1" in shown[-1]["text/plain"]


def test_loopback_goes_around_a_proxy() -> None:
    environment = {"NO_PROXY": "example.org"}
    _keep_loopback_direct(environment)
    _keep_loopback_direct(environment)
    assert environment == {
        "NO_PROXY": "example.org,127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def test_a_table_is_escaped() -> None:
    page = tables.as_html([("a", "b"), ("<x>", "1 & 2")])
    assert ">&lt;x&gt;</th>" in page
    assert ">1 &amp; 2</td>" in page
    assert page.count('scope="row"') == 1


def test_a_reported_figure_is_read_not_typed(lesson: Lesson) -> None:
    assert lesson.reported("completion_s") == 1.86
    with pytest.raises(LabError, match="No published report"):
        lesson.reported("nonsense")
