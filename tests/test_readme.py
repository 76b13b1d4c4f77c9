"""README leads only to what is there."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def links(page: Path) -> list[str]:
    return LINK.findall(page.read_text(encoding="utf-8"))


PAGES = (
    "README.md",
    "INSTRUCTORS.md",
    "CONTRIBUTING.md",
    "exercises/README.md",
    *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    *(f"site/{page.name}" for page in (ROOT / "site").glob("*.md")),
)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    missing = [to for to in links(page) if not (page.parent / to).exists()]
    assert missing == []


def test_every_lesson_is_linked_and_nothing_built_is_called_coming() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    built = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    assert built
    for notebook in built:
        assert f"](notebooks/{notebook.name})" in text
        assert not re.search(rf"\| {notebook.name[:2]} .*coming", text)


def test_every_lesson_has_a_baseline() -> None:
    lessons = {p.name[:2] for p in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    found = {p.stem for p in (ROOT / "data/baselines").glob("*/*.json")}
    assert lessons <= found


@pytest.mark.parametrize(
    ("picture", "lesson", "cell_id"),
    [
        ("comparison.png", "02_benchmark_fairly", "compare-table"),
        ("time-line.png", "07_streaming_and_ttft", "two-picture"),
    ],
)
def test_pictures_are_those_of_the_committed_lessons(
    picture: str, lesson: str, cell_id: str
) -> None:
    path = ROOT / "notebooks" / f"{lesson}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = (c for c in notebook["cells"] if c["id"] == cell_id)
    drawn = [
        b64decode(output["data"]["image/png"])
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    assert (ROOT / "docs" / picture).read_bytes() in drawn
