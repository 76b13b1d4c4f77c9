"""What is wrong with a KV cache, by name.

A learner's cached function gets one prompt in several cuts, and its logits
are compared with those of a pass without a cache. Where they differ, the
same cuts go through models that have one known fault each: the fault that
gives the learner's logits is the one that is named.

torch is loaded with this module; import it where a cache is checked.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labkit.errors import LabError
from labkit.kv_cache import GrowingCache
from labkit.llama import Llama, causal_mask, fused_attention

Start = Callable[[], Any]
"""Makes the state of a new, empty conversation."""
Step = Callable[[Any, list[int]], Tensor]
"""Runs ids that come after what the state holds: logits [new, vocabulary]."""


@dataclass(frozen=True)
class Cut:
    """A prompt, and how many of its ids go in at each call."""

    ids: tuple[int, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        sizes = [str(size) for size in self.sizes]
        return " + ".join([*sizes[:4], "..."] if len(sizes) > 4 else sizes)

    def chunks(self) -> Iterator[list[int]]:
        """The ids of each call."""
        ends = list(itertools.accumulate(self.sizes))
        for start, end in itertools.pairwise([0, *ends]):
            yield list(self.ids[start:end])


@dataclass(frozen=True)
class Fault:
    """A model with one mistake; `symptom` is what a learner reads.

    `position` gives the first new token's position and `visible` which
    entries each new token sees, [new, held + new]. Both get how many
    entries are held, how many are new, and how many came in the first call.
    `stale`: nothing is forgotten between conversations; the positions
    `restart` or go on.
    """

    symptom: str
    position: Callable[[int, int, int], int] = lambda held, new, first: held
    visible: Callable[[int, int, int], Tensor] = lambda held, new, first: (
        causal_mask(new, held + new)
    )
    stale: bool = False
    restart: bool = False


def check_cache(
    model: Llama,
    start: Start,
    step: Step,
    prompt_ids: Sequence[int],
    tolerance: float = 1e-3,
) -> float:
    """The largest difference of a logit with and without the cache.

    `start()` makes the state of an empty conversation, and `step(state,
    ids)` runs ids that come after it: logits [len(ids), vocabulary].
    `model` has the same weights. LabError, which names the symptom, where a
    logit differs by more than `tolerance`; rounding is about a tenth of its
    default for logits of some tens. LabError as well where `step` refuses
    a call, unless logits before it say what is wrong.
    """
    cuts = cuts_of(prompt_ids)
    right = [without_cache(model, cut) for cut in cuts]
    seen, refusal = _seen(start, step, cuts, model.config.vocabulary)
    apart = [distance(s, r) for s, r in zip(seen, right, strict=False)]
    wrong = [index for index, gap in enumerate(apart) if gap > tolerance]
    if not wrong:
        if refusal is not None:
            raise refusal
        return max(apart)
    first = wrong[0]
    where = _where(cuts[first], seen[first], right[first], tolerance)
    symptom = _name(model, cuts[: len(seen)], seen, tolerance)
    text = f"{symptom or _unnamed(cuts[first])} {where}"
    raise LabError(text) from refusal


def _seen(
    start: Start, step: Step, cuts: Sequence[Cut], vocabulary: int
) -> tuple[list[Tensor], LabError | None]:
    """Logits of each cut up to the first that is refused, and the refusal."""
    seen: list[Tensor] = []
    for cut in cuts:
        try:
            seen.append(run(start, step, cut, vocabulary))
        except LabError as error:
            return seen, error
    return seen, None


def cuts_of(prompt_ids: Sequence[int]) -> list[Cut]:
    """An earlier prompt, then this one in three cuts; LabError if short."""
    ids = tuple(prompt_ids)
    if len(ids) < 6 or len(set(ids)) < 3:
        raise LabError(
            "A cache cannot be checked with this prompt: give at least six "
            "ids, three of them different."
        )
    count, third = len(ids), len(ids) // 3
    return [
        Cut(ids[1:] + ids[:1], (count,)),
        Cut(ids, (count - 3, 1, 1, 1)),
        Cut(ids, (count - 2 * third, third, third)),
        Cut(ids, (1,) * count),
    ]


def run(start: Start, step: Step, cut: Cut, vocabulary: int) -> Tensor:
    """Logits after each id of one new conversation: [ids, vocabulary].

    LabError when a call refuses its ids or gives no row for each of them.
    """
    state, rows = start(), []
    with torch.inference_mode():
        for number, ids in enumerate(cut.chunks(), start=1):
            try:
                logits = step(state, ids)
            except LabError as error:
                raise LabError(
                    f"In call {number} of a new conversation of {cut} tokens "
                    f"step failed: {error}"
                ) from error
            _require_rows(logits, len(ids), vocabulary)
            rows.append(logits)
    return torch.cat(rows)


def _require_rows(logits: object, count: int, vocabulary: int) -> None:
    """LabError unless these are logits [count, vocabulary]."""
    wanted = f"return a tensor with a row of {vocabulary} for each"
    if not isinstance(logits, Tensor):
        raise LabError(
            f"step gave a {type(logits).__name__} for {count} ids: {wanted}."
        )
    if tuple(logits.shape) != (count, vocabulary):
        raise LabError(
            f"step gave logits of shape {tuple(logits.shape)} for {count} "
            f"ids: {wanted}."
        )


def without_cache(model: Llama, cut: Cut) -> Tensor:
    """The right logits: one pass over all ids, [ids, vocabulary]."""
    with torch.inference_mode():
        return model(torch.tensor([cut.ids]))[0]


def distance(one: Tensor, other: Tensor) -> float:
    """The largest difference; infinite where only one is a number."""
    return float(_gaps(one, other).max())


def _gaps(one: Tensor, other: Tensor) -> Tensor:
    """The largest difference in each row."""
    gaps = (one - other).abs()
    both = one.isnan() & other.isnan()
    gaps = gaps.masked_fill(both, 0).nan_to_num(nan=math.inf, posinf=math.inf)
    return gaps.amax(dim=-1)


def _where(cut: Cut, seen: Tensor, right: Tensor, tolerance: float) -> str:
    gaps = _gaps(seen, right)
    first = int((gaps > tolerance).nonzero()[0])
    gap = float(gaps[first])
    finite = gap < math.inf
    by = f"a logit is off by {gap:.2g}" if finite else "one is not finite"
    return (
        f"With {len(cut.ids)} tokens in calls of {cut} the first wrong "
        f"logits are those after position {first}: {by}, and rounding stays "
        f"below {tolerance:g}."
    )


def _unnamed(cut: Cut) -> str:
    if len(cut.sizes) == 1:
        return (
            "The very first call is wrong, with nothing kept before it: look "
            "at the pass itself, not at what it keeps."
        )
    return "No fault that this check knows gives these logits."


def _name(
    model: Llama, cuts: Sequence[Cut], seen: Sequence[Tensor], tolerance: float
) -> str | None:
    """The symptom of the fault that gives what was seen, in every cut."""
    if any(bool(logits.isnan().any()) for logits in seen):
        return (
            "Some logits are not a number: a token that sees no entry, not "
            "even its own, has a softmax over nothing."
        )
    for fault in FAULTS:
        start, step = plant(model, fault)
        given = (run(start, step, c, model.config.vocabulary) for c in cuts)
        if all(
            distance(mine, its) <= tolerance
            for mine, its in zip(seen, given, strict=True)
        ):
            return fault.symptom
    return None


@dataclass
class _Conversation:
    """What a faulty model keeps: entries, and how it got them."""

    cache: GrowingCache
    calls: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Placed:
    """A cache that gives the next token another position."""

    cache: GrowingCache
    length: int

    @property
    def layers(self) -> int:
        """For how many layers the cache is."""
        return self.cache.layers

    def append(
        self, layer: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.cache.append(layer, keys, values)


def plant(model: Llama, fault: Fault) -> tuple[Start, Step]:
    """`start` and `step` of a model with this fault; weights are shared."""
    left = GrowingCache(model.config)
    # Positions that are too far must not end the search for their fault.
    roomy = dataclasses.replace(model.config, context=2**31)

    def start() -> _Conversation:
        return _Conversation(left if fault.stale else _empty(model))

    def step(state: _Conversation, ids: list[int]) -> Tensor:
        held, new = state.cache.length, len(ids)
        since = sum(state.calls) if fault.restart else held
        state.calls.append(new)
        first = state.calls[0]
        placed = _Placed(state.cache, fault.position(since, new, first))
        mask = fault.visible(held, new, first)
        faulty = copy.copy(model)
        faulty.config = roomy
        faulty.attention = lambda q, k, v, _: fused_attention(q, k, v, mask)
        return faulty(torch.tensor([ids]), placed)[0]

    return start, step


def _empty(model: Llama) -> GrowingCache:
    return GrowingCache(model.config)


def _later(shift: Callable[[int, int], int]) -> Callable[..., int]:
    """A position that is wrong in every call but the first."""

    def position(held: int, new: int, first: int) -> int:
        return shift(held, first) if held else 0

    return position


def _unseen(end: Callable[[int], int]) -> Callable[..., Tensor]:
    """Entries before `end` are not seen after the first call."""

    def visible(held: int, new: int, first: int) -> Tensor:
        mask = causal_mask(new, held + new)
        if held:
            mask[:, : end(first)] = False
        return mask

    return visible


def _own_call_unseen(held: int, new: int, first: int) -> Tensor:
    """New tokens see what was kept before them, and not each other."""
    mask = causal_mask(new, held + new)
    if held:
        mask[:, held:] = False
    return mask


def _itself_unseen(held: int, new: int, first: int) -> Tensor:
    """No token sees itself, save one that would see nothing."""
    mask = causal_mask(new, held + new).tril(held - 1)
    mask[0, 0] |= held == 0
    return mask


def _newest_kept_unseen(held: int, new: int, first: int) -> Tensor:
    mask = causal_mask(new, held + new)
    if held > 1:
        mask[:, held - 1] = False
    return mask


def _future_seen_later(held: int, new: int, first: int) -> Tensor:
    if held:
        return torch.ones(new, held + new, dtype=torch.bool)
    return causal_mask(new, new)


def _top_left_of_several(held: int, new: int, first: int) -> Tensor:
    mask = causal_mask(new, held + new)
    return mask.tril() if new > 1 else mask


_TOP_LEFT = (
    "The mask is aligned top-left: of several new tokens the first must see "
    "all that is held, so align it bottom-right."
)
_FIRST = (
    "The first token's keys and values are missing from what later tokens see"
)
_PROMPT = (
    "What the first call computed never entered the cache: later tokens see "
    "nothing of it"
)
_SHORT = ", and the positions are counted without it"
_STALE = (
    "The cache still holds an earlier prompt: empty it for each new "
    "conversation"
)
_OWN = (
    "A new token does not see its own key and value: append first, then "
    "attend, and let a window reach up to the token itself"
)

FAULTS = (
    Fault(
        "The positions start again at zero in every call: count on from the "
        "number of entries held.",
        position=_later(lambda held, first: 0),
    ),
    Fault(
        "After the first call the positions are one too far: the next one is "
        "the number of entries held, because they count from 0.",
        position=_later(lambda held, first: held + 1),
    ),
    Fault(
        "After the first call the positions are one too near: the next one "
        "is the number of entries held, not one less.",
        position=_later(lambda held, first: held - 1),
    ),
    Fault(
        "After the first call the positions are too far by the prompt's "
        "length: it was added twice.",
        position=_later(lambda held, first: held + first),
    ),
    Fault(f"{_FIRST}.", visible=_unseen(lambda first: 1)),
    Fault(
        f"{_FIRST}{_SHORT}.",
        visible=_unseen(lambda first: 1),
        position=_later(lambda held, first: held - 1),
    ),
    Fault(f"{_PROMPT}.", visible=_unseen(lambda first: first)),
    Fault(
        _TOP_LEFT,
        visible=lambda held, new, first: causal_mask(new, held + new).tril(),
    ),
    Fault(_TOP_LEFT, visible=_top_left_of_several),
    Fault(
        "Several new tokens see each other's future: mask them among "
        "themselves also when something is held.",
        visible=_future_seen_later,
    ),
    Fault(
        "Tokens see the future: no mask is applied.",
        visible=lambda held, new, first: torch.ones(
            new, held + new, dtype=torch.bool
        ),
    ),
    Fault(f"{_OWN}.", visible=_own_call_unseen),
    Fault(f"{_OWN}.", visible=_itself_unseen),
    Fault(
        "The newest kept entry is not seen: what is read ends one too early.",
        visible=_newest_kept_unseen,
    ),
    Fault(f"{_STALE}.", stale=True),
    Fault(
        f"{_STALE}; the positions did start again.", stale=True, restart=True
    ),
)
"""The mistakes that are known by name."""
