"""What a person sees while something long runs."""

from __future__ import annotations

import os
import sys
from typing import Protocol

HEADLESS = "LABKIT_HEADLESS"
"""Variable that is set where nobody watches; no bar is drawn then."""


class Progress(Protocol):
    """What a long task tells while it runs."""

    def advance(self, label: str) -> None:
        """One more step, of this name, is done."""

    def close(self, summary: str) -> None:
        """No more steps follow; the line says how it ended."""


class Bar:
    """A bar with the time left; one printed line takes its place."""

    def __init__(self, total: int, title: str, visible: bool) -> None:
        from tqdm.auto import tqdm

        # smoothing=0: steps differ in length, so the mean of all so far
        # is a better guess at the time left than the last few.
        self._bar = tqdm(
            total=total,
            desc=title,
            unit="run",
            leave=False,
            smoothing=0,
            disable=not visible,
        )

    def advance(self, label: str) -> None:
        """Move by one step and show its name."""
        self._bar.set_postfix_str(label, refresh=False)
        self._bar.update()

    def close(self, summary: str) -> None:
        """Take the bar away and print the line, if there is one."""
        self._bar.close()
        if summary:
            print(summary)


class Silent:
    """Tells nothing, for scripted work that takes no time."""

    def __init__(self, total: int) -> None:
        """Take the number of steps, as every bar does."""

    def advance(self, label: str) -> None:
        """Do nothing."""

    def close(self, summary: str) -> None:
        """Do nothing."""


def bar(total: int, title: str = "Measuring") -> Bar:
    """A bar where somebody watches: in a notebook or at a terminal."""
    return Bar(total, title, _watched())


def _watched() -> bool:
    if os.environ.get(HEADLESS):
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel") or sys.stderr.isatty()
