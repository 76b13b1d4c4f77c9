"""The one kind of error that is meant for the person at the keyboard."""

from __future__ import annotations


class LabError(Exception):
    """One sentence that says what happened and what to do.

    The command line prints it without a traceback and exits with status 1;
    a notebook shows it on one line.
    """

    def _render_traceback_(self) -> list[str]:
        """Lines that IPython shows in place of a traceback."""
        return [str(self)]
