"""Where two answers part, and whether rounding alone explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.generation import Model, prefill
from labkit.kv_cache import PreallocatedCache

NEAR_TIE = 1e-3
"""Logits this close may change places with the order of the sums: two right
ways to compute them may differ by 5e-4 each on this course's model."""


@dataclass(frozen=True)
class Difference:
    """The first position at which two answers differ.

    `position` counts new tokens from 0; `gap` is the logit of `expected`
    minus that of `found` after the common text, None where one answer ends.
    """

    position: int
    expected: int | None
    found: int | None
    gap: float | None

    @property
    def near_tie(self) -> bool:
        """Whether the two were so close that rounding decides."""
        return self.gap is not None and abs(self.gap) < NEAR_TIE

    def __str__(self) -> str:
        if self.gap is None:
            return f"one answer ends at token {self.position}"
        cause = (
            "a near tie, which rounding decides"
            if self.near_tie
            else "too far apart for rounding"
        )
        return (
            f"token {self.position} is {self.found}, not {self.expected}; "
            f"their logits are {abs(self.gap):.2g} apart: {cause}"
        )


def first_difference(
    model: Model,
    prompt_ids: Sequence[int],
    expected: Sequence[int],
    found: Sequence[int],
) -> Difference | None:
    """Where `found` first differs from `expected`; None if it does not.

    The gap is measured by running the prompt and what both have in common
    through `model` at once.
    """
    longest = max(len(expected), len(found))
    for position in range(longest):
        pair = [
            ids[position] if position < len(ids) else None
            for ids in (expected, found)
        ]
        if pair[0] == pair[1]:
            continue
        if pair[0] is None or pair[1] is None:
            return Difference(position, pair[0], pair[1], None)
        common = [*prompt_ids, *expected[:position]]
        cache = PreallocatedCache(model.config, len(common), dtype=model.dtype)
        logits = prefill(model, common, cache)
        gap = float(logits[pair[0]] - logits[pair[1]])
        return Difference(position, pair[0], pair[1], gap)
    return None
