"""Fixtures that several groups of tests share, and how two workers do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from xdist.scheduler import LoadScopeScheduling

from labkit import checkpoints, machine, store
from labkit.text_model import TextModel

from .lessons import IN_BROWSER

_EVERY_LESSON = "--every-lesson"
_EXECUTED = "lesson executed"
_LESSON = re.compile(r"/test_lessons\.py::\w+\[(\d\d)[-_\]]")


def pytest_configure() -> None:
    """PyTorch's threads leave their core to the other worker's tests."""
    machine.wait_briefly(os.environ)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        _EVERY_LESSON,
        action="store_true",
        help="run every lesson in the browser, as `make browser` does",
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Says what is left out: with two workers pytest does not count it."""
    if config.getoption(_EVERY_LESSON):
        return "in the browser: every lesson is run"
    few = ", ".join(IN_BROWSER)
    return f"in the browser: lessons {few} are run; `make browser` runs all"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """What takes longest begins first: browsers, then whole lessons."""
    if not config.getoption(_EVERY_LESSON):
        left = {i for i in items if i.get_closest_marker("every_lesson")}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("browser"):
        return 0
    return 1 if "executed" in getattr(item, "fixturenames", ()) else 2


class ByLesson(LoadScopeScheduling):
    """Gives a worker a whole file, or all that a file has on one lesson.

    So fixtures are made once, and a lesson is executed once. The marks that
    pytest-xdist has for it (3.8, with pytest 9.2) group nothing.
    """

    def _split_scope(self, nodeid: str) -> str:
        lesson = _LESSON.search(nodeid)
        path = nodeid.partition("::")[0]
        return f"{path} {lesson[1]}" if lesson else path


@pytest.hookimpl(optionalhook=True)  # with `-p no:xdist` nobody calls it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByLesson:
    config.option.loadscopereorder = False  # the order is ours
    return ByLesson(config, log)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> None:
    """Run time, which is never judged, and peak memory of each lesson.

    From the reports of tests, which a worker sends to the main process.
    """
    lines = sorted(
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == _EXECUTED
    )
    if lines:
        terminalreporter.section("lessons executed")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def tell_executed(
    record_property: Callable[[str, object], None],
) -> Callable[[str], None]:
    """Puts a line into the summary, under "lessons executed"."""
    return partial(record_property, _EXECUTED)


@pytest.fixture(scope="session", autouse=True)
def results_elsewhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Lessons that run in tests leave no results in the course's folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("results")
        patch.setenv("LABKIT_RESULTS", str(folder))
        yield


@pytest.fixture(scope="session")
def model_home() -> Path:
    """Cache folder that holds the course's own model, fetched if need be."""
    home = store.home()
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "tests.lock"):  # one worker fetches for all
        checkpoints.fetch(checkpoints.find(checkpoints.DEFAULT))
    return home


@pytest.fixture(scope="session")
def text_model(model_home: Path) -> TextModel:
    """The real model with its tokenizer; treat it as read-only."""
    return TextModel.load(root=model_home)


@pytest.fixture
def tokenizer(model_home: Path) -> Any:
    """The real tokenizer."""
    return checkpoints.load_tokenizer(root=model_home)
