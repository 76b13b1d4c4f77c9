"""Prompts of an exact number of tokens, as ids, all different.

No two prompts of a plan are equal and none is the beginning of another, so
that a server that remembers prompts has nothing to remember.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from labkit.errors import LabError

Ids = tuple[int, ...]
TRIES = 100
"""Draws for one random prompt before it is given up; of one token among
49,152 the thousandth meets an earlier one in two of a hundred."""


def passage_ids(root: Path | None = None) -> list[int]:
    """The ids of data/prompts/passage.txt, by the course's own tokenizer."""
    from labkit import checkpoints, course

    path = course.folder() / "data" / "prompts" / "passage.txt"
    tokenizer = checkpoints.load_tokenizer(root=root)
    text = path.read_text(encoding="utf-8")
    return list(tokenizer.encode(text).ids)


def from_text(
    ids: Sequence[int], lengths: Sequence[int], seed: int
) -> list[Ids]:
    """A prompt of each length, cut out of a text that repeats.

    Each begins at another place of the text. LabError when there are not
    enough places for prompts that all differ.
    """
    if not ids:
        raise LabError("The text has no token: take a longer one.")
    # No secret: a seed is there to give the same prompts again.
    drawn = random.Random(seed)  # noqa: S311
    places = list(range(len(ids)))
    drawn.shuffle(places)
    return _different((_window(ids, place) for place in places), lengths)


def random_ids(
    vocabulary: int, lengths: Sequence[int], seed: int
) -> list[Ids]:
    """A prompt of each length, of ids drawn evenly from a vocabulary."""
    if vocabulary < 1:
        raise LabError(f"A vocabulary of {vocabulary} has no token to draw.")
    drawn = random.Random(seed)  # noqa: S311 - no secret either
    longest = max(lengths, default=0)
    candidates = (
        drawn.choices(range(vocabulary), k=longest)
        for _ in range(TRIES * len(lengths))
    )
    return _different(candidates, lengths)


def _window(ids: Sequence[int], place: int) -> Iterator[int]:
    """The text from a place on, again and again."""
    while True:
        yield from ids[place:]
        place = 0


def _different(
    candidates: Iterator[Iterator[int]] | Iterator[list[int]],
    lengths: Sequence[int],
) -> list[Ids]:
    """Candidates cut to the lengths; those like an earlier one are left.

    Two are alike when they begin alike over the length of the shorter.
    """
    made: list[Ids] = []
    shortest = min(lengths, default=0)
    if shortest < 1:
        raise LabError("A prompt has at least one token: ask for 1 or more.")
    beginnings: set[Ids] = set()
    for candidate in candidates:
        if len(made) == len(lengths):
            break
        endless = iter(candidate)
        prompt = tuple(next(endless) for _ in range(lengths[len(made)]))
        if prompt[:shortest] not in beginnings:
            beginnings.add(prompt[:shortest])
            made.append(prompt)
    if len(made) < len(lengths):
        raise LabError(
            f"There are only {len(made)} different prompts to be made, and"
            f" {len(lengths)} are asked for: ask for fewer or longer ones,"
            " or take random ids."
        )
    return made
