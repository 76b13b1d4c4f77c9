"""The committed lessons as a reader meets them: opened, nothing run.

What comes from git is not signed, so JupyterLab shows each output in the
richest form that it takes as safe, and of a form the list beside it. Signed,
they would show an error in place of each form, which needs its kernel or the
state that JupyterLab saves with a notebook: the course signs nothing.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import expect

from ..lessons import browser_cases, copy_course, load
from .driver import Lab, Shown

Output: TypeAlias = Any

RICHEST_FIRST = ("text/markdown", "image/png", "text/html", "text/plain")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(
    jupyterlab: Callable[..., AbstractContextManager[Lab]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    """One JupyterLab for all lessons; nothing is run in it."""
    course = tmp_path_factory.mktemp("reader") / "course"
    copy_course(course)
    with jupyterlab(course, {}) as opened:
        yield opened


@pytest.mark.parametrize("lesson", browser_cases())
def test_a_committed_lesson_shows_all_its_outputs(
    lab: Lab, lesson: Path
) -> None:
    lab.console_errors.clear()
    lab.open_next(f"{lesson.parent.name}/{lesson.name}")
    shown = lab.cell_outputs()
    assert any(shown.values())
    for cell in load(lesson).cells:
        if cell.cell_type == "code":
            found = shown[cell.id]
            assert len(found) == len(cell.outputs), cell.id
            for output, seen in zip(cell.outputs, found, strict=True):
                assert not differences(output, seen), cell.id
    expect(lab.page.locator(".jp-Dialog, .Toastify__toast")).to_have_count(0)
    assert lab.console_errors == []


def differences(output: Output, seen: Shown) -> list[str]:
    """What a committed output has and the page does not show, or else."""
    mime, text = expected(output)
    found = [] if seen.mime == mime else [f"shown as {seen.mime}, not {mime}"]
    if mime == "image/png":
        loaded = len(seen.pictures) == 1 and seen.pictures[0] > 0
        return found + ([] if loaded else [f"pictures: {seen.pictures}"])
    if squeezed(text) != squeezed(seen.text):
        found.append(f"shown: {seen.text!r}")
    return found


def expected(output: Output) -> tuple[str, str]:
    """The mime type that the page shows an output in, and its text."""
    if output.output_type == "stream":
        return f"application/vnd.jupyter.{output.name}", output.text
    if output.output_type == "error":
        text = "\n".join(output.traceback)
        return "application/vnd.jupyter.stderr", text
    mime = next(mime for mime in RICHEST_FIRST if mime in output.data)
    if mime == "text/html":
        inside = re.sub(
            r"(?s)<style.*?</style>|<[^>]+>", "", output.data[mime]
        )
        return mime, html.unescape(inside)
    if mime == "text/markdown":
        return mime, re.sub(r"[*_`]", "", output.data[mime])
    return mime, output.data.get("text/plain", "")


def squeezed(text: str) -> str:
    """Without spaces, and without the colours of a terminal."""
    return re.sub(r"\x1b\[[\d;]*m|\s+", "", text)
