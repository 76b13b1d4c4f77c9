"""Lessons as a learner meets them: opened, run, and run again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from labkit.records import MIME, describe, from_json

from .conftest import NOTEBOOKS
from .driver import TROUBLE, Lab

PREDICTING = "05_kv_cache_memory"
"""Of the lessons with three predictions, the quickest."""
LESSONS = ("01_serve_a_model",)
"""Each costs a run of the lesson; later ones are added where they differ."""

SHORTER = {
    "01_serve_a_model": (
        ("repeats=10", "repeats=1"),
        ("warmups=2", "warmups=0"),
        ("for _ in range(3):", "for _ in range(1):"),
        ("for _ in range(6)]", "for _ in range(2)]"),
    ),
    "05_kv_cache_memory": (
        (
            "REPEATS, WARMUPS, SEED = 5, 2, 0",
            "REPEATS, WARMUPS, SEED = 1, 0, 0",
        ),
    ),
}
"""Fewer repeats: the page is tested here, and every lesson in full
where its outputs are compared (tests/notebooks)."""


def present() -> list[str]:
    return [name for name in LESSONS if (NOTEBOOKS / f"{name}.ipynb").exists()]


@pytest.mark.browser
@pytest.mark.model
@pytest.mark.parametrize("lesson", present())
def test_a_lesson_runs_twice_in_jupyterlab(
    lab: Lab, course_copy: Path, lesson: str
) -> None:
    shorten(course_copy / NOTEBOOKS.name / f"{lesson}.ipynb")
    lab.open(f"{NOTEBOOKS.name}/{lesson}.ipynb")
    for _ in range(2):
        lab.run_all()
        check_outputs(lab)
        check_prompts(lab)
    assert lab.console_errors == []


@pytest.mark.browser
@pytest.mark.model
def test_a_prediction_by_keyboard_stands_in_the_comparison(
    lab: Lab, course_copy: Path
) -> None:
    shorten(course_copy / "notebooks" / f"{PREDICTING}.ipynb")
    lab.open(f"notebooks/{PREDICTING}.ipynb")
    lab.run_above("build")
    fields = lab.cell("predictions").get_by_placeholder("your guess")
    expect(fields).to_have_count(3)
    first, second = fields.all()[:2]
    first.focus()
    lab.page.keyboard.type("6,25")
    lab.page.keyboard.press("Tab")
    expect(second).to_be_focused()
    expect(lab.cell("predictions")).to_contain_text("kept")
    lab.run_from("build")
    table = lab.cell("compare-table")
    row = table.get_by_role("row").filter(has_text="cache_per_token")
    expect(row.first).to_contain_text("6.25")
    assert lab.console_errors == []


def shorten(path: Path) -> None:
    """Replace what SHORTER names in the lesson's copy."""
    text = path.read_text(encoding="utf-8")
    for full, short in SHORTER[path.stem]:
        assert text.count(full) == 1, full
        text = text.replace(full, short)
    path.write_text(text, encoding="utf-8")


def check_prompts(lab: Lab) -> None:
    """Every code cell has its number, counting up from top to bottom."""
    prompts = lab.prompts()
    open_ones = {k: v for k, v in prompts.items() if not re.search(r"\d", v)}
    assert not open_ones, f"cells that did not run: {open_ones}"
    numbers = [int(re.sub(r"\D", "", text)) for text in prompts.values()]
    first = numbers[0]
    assert numbers == list(range(first, first + len(numbers)))


def check_outputs(lab: Lab) -> None:
    """No error but where one is wanted; records and pictures are seen."""
    shown = lab.cell_outputs()
    code = [cell for cell in lab.save().cells if cell.cell_type == "code"]
    for cell in code:
        if "raises-exception" not in cell.metadata.get("tags", []):
            bad = [out for out in shown[cell.id] if out.mime in TROUBLE]
            assert not bad, f"{cell.id}: {bad}"
        if any("image/png" in out.get("data", {}) for out in cell.outputs):
            expect(lab.cell(cell.id).locator("img").first).to_be_visible()
        visible = "\n".join(out.text for out in shown[cell.id])
        for output in cell.outputs:
            data = output.get("data", {})
            if MIME in data:
                assert describe(from_json(data[MIME])) in visible, cell.id
    assert any(shown.values())
