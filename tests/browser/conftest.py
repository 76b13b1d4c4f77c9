"""A JupyterLab on a copy of the course, in a headless Chromium."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect, sync_playwright

from ..lessons import copy_course
from . import chromium
from .driver import Lab, running

VIEWPORT: ViewportSize = {"width": 1400, "height": 1000}

# Another worker's tests may keep the cores busy; the default is 5 s.
expect.set_options(timeout=30_000)


def require_chromium(environment: Mapping[str, str]) -> str:
    """Chromium's path; without one the test is skipped, in CI it fails."""
    try:
        return chromium.find(environment)
    except chromium.NotFoundError as error:
        if environment.get("CI"):
            pytest.fail(f"CI needs a browser: {error}", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return require_chromium(os.environ)


@pytest.fixture(scope="session")
def jupyterlab(
    chromium_path: str,
) -> Callable[[Path, Mapping[str, str]], AbstractContextManager[Lab]]:
    """Opens a JupyterLab on the copy of the course in a folder."""
    return partial(_jupyterlab, chromium_path)


@pytest.fixture
def course_copy(tmp_path: Path) -> Path:
    """Notebooks, data and exercises where they may be written to."""
    copy_course(tmp_path / "course")
    return tmp_path / "course"


@pytest.fixture
def kept_results(tmp_path: Path) -> Path:
    """Where the kernels of `lab` keep predictions and results."""
    return tmp_path / "results"


@pytest.fixture
def lab(
    jupyterlab: Callable[..., AbstractContextManager[Lab]],
    course_copy: Path,
    kept_results: Path,
    model_home: Path,
) -> Iterator[Lab]:
    """A JupyterLab of its own for each test, ended with it."""
    environment = {
        "LABKIT_HOME": str(model_home),
        "LABKIT_RESULTS": str(kept_results),
    }
    with jupyterlab(course_copy, environment) as opened:
        yield opened


@contextmanager
def _jupyterlab(
    chromium_path: str, course: Path, environment: Mapping[str, str]
) -> Iterator[Lab]:
    scratch = course.with_name("jupyter")
    scratch.mkdir()
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    arguments = ["--disable-gpu", "--disable-background-networking"]
    # Chromium's sandbox refuses to work for root, whom CI often is.
    arguments += ["--no-sandbox"] if root else []
    with (
        running(course, scratch, environment) as server,
        sync_playwright() as web,
    ):
        browser = web.chromium.launch(
            executable_path=chromium_path, headless=True, args=arguments
        )
        yield Lab(server, browser.new_page(viewport=VIEWPORT))
        browser.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test says what the page looked like and what was logged."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if report.when == "call" and report.failed and isinstance(lab, Lab):
        report.sections.append(("browser", _evidence(lab)))
    return report


def _evidence(lab: Lab) -> str:
    try:
        picture = lab.screenshot(lab.server.log.with_name("failure.png"))
        seen = f"screenshot: {picture}"
    except Exception as error:  # the page may be gone; the failure stands
        seen = f"no screenshot: {error}"
    errors = "\n".join(lab.console_errors) or "none"
    log = lab.server.log.read_text(encoding="utf-8", errors="replace")
    return f"{seen}\nconsole errors: {errors}\nserver log:\n{log[-3000:]}"
