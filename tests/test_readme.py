"""README leads only to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def links(page: Path) -> list[str]:
    return LINK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["README.md", "exercises/README.md"])
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
    lessons = {p.name[:2] for p in (ROOT / "notebooks").glob("0*.ipynb")}
    found = {p.stem for p in (ROOT / "data/baselines").glob("*/*.json")}
    assert lessons <= found
