"""Where Chromium is on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
MISSING = (
    "no Chromium on this machine: install chromium or Chrome, or set the"
    " environment variable CHROMIUM to its path"
)


class NotFoundError(Exception):
    """No browser; the message says what to do."""


def find(
    environment: Mapping[str, str],
    which: Callable[[str], str | None] = shutil.which,
    places: tuple[str, ...] = PLACES,
) -> str:
    """Path of a Chromium: CHROMIUM's, else by name, else usual places.

    Raises NotFoundError when there is none, or when CHROMIUM names none.
    """
    chosen = environment.get("CHROMIUM")
    if chosen:
        found = which(chosen)
        if found is None:
            raise NotFoundError(f"CHROMIUM is {chosen!r}, which is no program")
        return found
    by_name = (which(name) for name in NAMES)
    by_place = (place for place in places if Path(place).is_file())
    for path in (*by_name, *by_place):
        if path:
            return path
    raise NotFoundError(MISSING)
