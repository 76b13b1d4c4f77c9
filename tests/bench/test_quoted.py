"""What is quoted from the bench is what its committed result says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit import documents

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "bench" / "results").glob("*/decode.json"))


@pytest.fixture
def shown(reports: Any) -> list[str]:
    assert len(RESULTS) == 1
    document = documents.read(RESULTS[0])
    text: str = reports.as_markdown(reports.from_json(document))
    return text.splitlines()


def test_the_page_is_the_rendered_result(shown: list[str]) -> None:
    page = (ROOT / "docs" / "decode.md").read_text(encoding="utf-8")
    assert page.rstrip().endswith("\n".join(shown).rstrip())


def test_the_rows_of_the_readme_are_in_it(shown: list[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Speed\n")[2].partition("\n## ")[0]
    quoted = [line for line in section.splitlines() if line[:1] == "|"]
    assert len(quoted) > 2
    assert [line for line in quoted if line not in shown] == []
