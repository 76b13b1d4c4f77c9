"""Who may begin, who waits and who is refused: first come, first served.

Without clocks and sockets; standard library only.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, Literal, TypeVar

from labkit.errors import LabError

T = TypeVar("T")
Verdict = Literal["begins", "waits", "refused"]


class Slots(Generic[T]):
    """Places in which something is served, and the line before them.

    Without `slots` everything begins at once. `max_waiting` bounds the line,
    None does not. LabError for sizes that are none.
    """

    def __init__(
        self, slots: int | None = None, max_waiting: int | None = None
    ) -> None:
        if slots is not None and slots < 1:
            raise LabError(f"There are no {slots} slots: ask for 1 or more.")
        if max_waiting is not None and (slots is None or max_waiting < 0):
            raise LabError(
                f"A line of {max_waiting} at most is none: give slots as"
                " well, and 0 or more that may wait."
            )
        self._slots = slots
        self._max_waiting = max_waiting
        self._busy = 0
        self._waiting: deque[T] = deque()

    def come(self, visitor: T) -> Verdict:
        """Somebody comes; who waits is given out by a later `leave`."""
        if self._slots is None or self._busy < self._slots:
            self._busy += 1
            return "begins"
        if len(self._waiting) == self._max_waiting:
            return "refused"
        self._waiting.append(visitor)
        return "waits"

    def leave(self) -> T | None:
        """Somebody's slot is free; who begins in it, if anybody waits."""
        if self._waiting:
            return self._waiting.popleft()
        self._busy -= 1
        return None
