"""docs/loadgen.md says what the committed results say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit import documents

ROOT = Path(__file__).parents[2]
PRECISION = sorted((ROOT / "bench" / "results").glob("*/loadgen.json"))
MAX_BYTES = 60_000


def test_the_page_ends_with_the_rendered_results(
    bench: Callable[[str], Any],
) -> None:
    assert len(PRECISION) == 1
    folder = PRECISION[0].parent
    shown: str = bench("loadgen_page").as_markdown(
        documents.read(PRECISION[0]),
        documents.read(folder / "loadgen_tools.json"),
        folder.name,
    )
    page = (ROOT / "docs" / "loadgen.md").read_text(encoding="utf-8")
    assert page.endswith(shown)
    assert len(shown) > 3000


def test_the_results_stay_small() -> None:
    for name in ("loadgen.json", "loadgen_tools.json"):
        assert (PRECISION[0].parent / name).stat().st_size < MAX_BYTES
