"""Which browser is taken, and what happens without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import chromium
from .conftest import require_chromium


def nothing(_: str) -> None:
    return None


def test_the_variable_comes_first() -> None:
    found = chromium.find({"CHROMIUM": "my-browser"}, lambda n: f"/bin/{n}")
    assert found == "/bin/my-browser"


def test_a_variable_that_names_nothing_is_told() -> None:
    with pytest.raises(chromium.NotFoundError, match="'my-browser', which"):
        chromium.find({"CHROMIUM": "my-browser"}, nothing)


def test_names_are_tried_in_turn() -> None:
    def which(name: str) -> str | None:
        return "/bin/chrome" if name == "google-chrome" else None

    assert chromium.find({}, which) == "/bin/chrome"


def test_usual_places_come_last(tmp_path: Path) -> None:
    place = tmp_path / "chrome.exe"
    place.touch()
    places = (str(tmp_path / "no"), str(place))
    assert chromium.find({}, nothing, places) == str(place)


def test_without_a_browser_tests_are_skipped_but_fail_in_ci(
    tmp_path: Path,
) -> None:
    missing = {"CHROMIUM": str(tmp_path / "none")}
    with pytest.raises(pytest.skip.Exception, match="is no program"):
        require_chromium(missing)
    with pytest.raises(pytest.fail.Exception, match="CI needs a browser"):
        require_chromium({**missing, "CI": "true"})


def test_the_reason_says_what_to_do() -> None:
    with pytest.raises(chromium.NotFoundError, match="install chromium"):
        chromium.find({}, nothing, ())
