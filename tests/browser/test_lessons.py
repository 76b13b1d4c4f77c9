"""Lessons as a learner meets them: opened, run, and run again.

Here each runs without repeats: it is the page that is tested, and the
numbers are where outputs are compared (tests/notebooks). Without
--every-lesson a few lessons stand for all.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from labkit.records import MIME, describe, from_json

from ..lessons import NOTEBOOKS, browser_cases, load, shorten
from .driver import TROUBLE, Lab

TWICE = "01"
"""This one is run again in the same kernel, and saved and opened again."""
pytestmark = [pytest.mark.browser, pytest.mark.model]


@pytest.mark.parametrize("lesson", browser_cases())
def test_a_lesson_in_jupyterlab(
    lab: Lab, course_copy: Path, kept_results: Path, lesson: Path
) -> None:
    place = f"{NOTEBOOKS.name}/{lesson.name}"
    notebook = shorten(load(lesson))
    nbformat.write(notebook, course_copy / place)
    lab.open(place)
    lab.run_above("build")
    typed = type_predictions(lab)
    lab.run_from("build")
    check_outputs(lab)
    check_prompts(lab)
    kept = kept_predictions(kept_results / lesson.name[:2])
    compared = compared_predictions(lab)
    assert sorted(typed) == sorted(kept) == sorted(compared)
    assert all(compared[guess].startswith(kept[guess]) for guess in typed)
    sliders = sum("sliders.show(" in c.source for c in notebook.cells)
    assert move_sliders(lab) == sliders
    if lesson.name.startswith(TWICE):
        lab.run_all()
        check_outputs(lab)
        check_prompts(lab)
        lab.open_next(place)  # check_outputs saved it
        expect(lab.cell("predictions")).to_contain_text(f"kept: {typed[0]}")
        check_outputs(lab)
    assert lab.console_errors == []


def type_predictions(lab: Lab) -> list[float]:
    """Answer every question by keyboard, from field to field with Tab."""
    cell = lab.cell("predictions")
    fields = cell.get_by_placeholder("your guess")
    expect(fields.first).to_be_visible()
    guesses = [number + 6.25 for number in range(fields.count())]
    fields.first.focus()
    for field, guess in zip(fields.all(), guesses, strict=True):
        expect(field).to_be_focused()
        lab.page.keyboard.type(f"{guess}".replace(".", ","))
        lab.page.keyboard.press("Tab")
        expect(cell).to_contain_text(f"kept: {guess}")
    return guesses


def kept_predictions(folder: Path) -> dict[float, str]:
    """What the kernel wrote down: prediction -> name of the quantity."""
    text = (folder / "predictions.json").read_text(encoding="utf-8")
    return {v: name for name, v in json.loads(text)["predictions"].items()}


def compared_predictions(lab: Lab) -> dict[float, str]:
    """What the comparison shows: prediction -> the quantity with its unit."""
    table = lab.cell("compare-table").locator("table").first
    texts = table.locator("tr").all_inner_texts()
    head, *rows = [[c.strip() for c in text.split("\t")] for text in texts]
    place = head.index("predicted")
    return {float(row[place]): row[0] for row in rows if row[place]}


def move_sliders(lab: Lab) -> int:
    """Move each slider by keyboard, see the answer; cells with sliders."""
    cells = lab.page.locator(".jp-Notebook .jp-CodeCell").filter(
        has=lab.page.get_by_role("slider")
    )
    for cell in cells.all():
        for slider in cell.get_by_role("slider").all():
            move(slider, cell)
    return cells.count()


def move(slider: Locator, cell: Locator) -> None:
    """A step to the right moves it, and its ends give other answers."""
    answer = cell.locator(".widget-html-content").last
    slider.focus()
    expect(slider).to_be_focused()
    before = cell.inner_text()
    slider.press("ArrowRight")
    expect(cell).not_to_have_text(before, use_inner_text=True)
    slider.press("Home")
    least_value = slider.get_attribute("aria-valuemin") or ""
    expect(slider).to_have_attribute("aria-valuenow", least_value)
    least = answer.inner_text()
    slider.press("End")
    expect(answer).not_to_have_text(least, use_inner_text=True)


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
        pictures = [p for out in shown[cell.id] for p in out.pictures]
        wanted = sum("image/png" in o.get("data", {}) for o in cell.outputs)
        assert len(pictures) == wanted, cell.id
        assert all(pictures), f"{cell.id}: a picture did not load"
        visible = "\n".join(out.text for out in shown[cell.id])
        for output in cell.outputs:
            data = output.get("data", {})
            if MIME in data:
                assert describe(from_json(data[MIME])) in visible, cell.id
    assert any(shown.values())
