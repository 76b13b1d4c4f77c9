"""The pages of the site say what the code says, and can be built."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit import baselines
from labkit.baselines import Baseline
from labkit.comparison_table import figure

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
QUOTED = re.compile(r'\*\*"([^"]+)"')
FIGURE = re.compile(r"^\| (\d\d) \| `([^`]+)` \| (\S+) \| (.+) \|$", re.M)
ENTRY_POINTS = {"__init__.py", "__main__.py"}


def sentences() -> Iterator[str]:
    """Every text of the package; what is filled in is written as `...`."""
    for path in (ROOT / "labkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "\0"
                    for part in node.values
                )


def test_each_module_stands_in_the_api_once() -> None:
    pages = [p.read_text(encoding="utf-8") for p in SITE.glob("api/*.md")]
    told = re.findall(r"automodule:: (\S+)", "\n".join(pages))
    files = (ROOT / "labkit").rglob("*.py")
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in files
        if path.name not in ENTRY_POINTS
    ]
    assert sorted(told) == sorted(modules)


def test_symptoms_are_quoted_as_they_are_said() -> None:
    page = (SITE / "troubleshooting.md").read_text(encoding="utf-8")
    said = list(sentences())
    said += [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "notebooks").glob("*.ipynb")
    ]
    quoted = QUOTED.findall(page)
    assert len(quoted) > 5
    for symptom in quoted:
        parts = symptom.replace("\n", " ").split("...")
        whole = ".*".join(re.escape(part) for part in parts)
        assert any(re.search(whole, text, re.DOTALL) for text in said), symptom


def test_what_instructors_may_expect_is_the_baselines() -> None:
    page = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
    rows = FIGURE.findall(page)
    assert len(rows) > 5
    for lesson, name, value, expected in rows:
        (found,) = (
            b
            for b in baselines.load(ROOT / "data", lesson)
            if isinstance(b, Baseline) and b.kind == "measured"
        )
        (record,) = (
            q.record for q in found.quantities if q.record.name == name
        )
        assert figure(record.value) == value, name
        if record.rule == "ratio":
            assert expected == f"{record.low:g} to {record.high:g}", name


@pytest.mark.parametrize("name", ["CITATION.cff", "LICENSE", "CHANGELOG.md"])
def test_what_a_stranger_looks_for_is_there(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    words += ["-d", str(tmp_path / "trees"), "-c", str(SITE)]
    words += [str(ROOT), str(tmp_path / "html")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (
        tmp_path / "html" / "notebooks" / "02_benchmark_fairly.html"
    ).read_text(encoding="utf-8")
    assert "REPEATS" in page
    assert "<img" in page
    table = (tmp_path / "html" / "site" / "baselines.html").read_text(
        encoding="utf-8"
    )
    assert "tokens/GB" in table or "not known" in table
