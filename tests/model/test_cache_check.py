"""A broken cache is named; the faults are planted as a learner writes them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labkit import cache_check
from labkit.cache_check import FAULTS, check_cache, cuts_of, plant
from labkit.errors import LabError
from labkit.kv_cache import GrowingCache, PreallocatedCache
from labkit.llama import Llama, rotate

PROMPT = [5, 17, 3, 44, 80, 3, 61, 29, 12]


@dataclass
class Kept:
    """What a learner keeps: keys and values in a plain dictionary."""

    entries: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    seen: int = 0
    first: int = 0


class ByHand:
    """A cached model written out, with a method for each place to err."""

    def __init__(self, model: Llama) -> None:
        self.model = model

    def start(self) -> Kept:
        return Kept()

    def position(self, kept: Kept, new: int) -> int:
        return kept.seen

    def join(
        self, old: tuple[Tensor, Tensor] | None, k: Tensor, v: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """What is kept, and what the new tokens look at."""
        if old is not None:
            k, v = torch.cat((old[0], k), 1), torch.cat((old[1], v), 1)
        return (k, v), (k, v)

    def hidden_from(self, new: int, length: int) -> Tensor:
        """True where a new token must not look."""
        ones = torch.ones(new, length, dtype=torch.bool)
        return ones.triu(length - new + 1)

    def step(self, kept: Kept, ids: list[int]) -> Tensor:
        model, new = self.model, len(ids)
        kept.first = kept.first or new
        start = self.position(kept, new)
        angles = torch.outer(
            torch.arange(start, start + new), model.frequencies
        ).repeat(1, 2)
        x = model.embedding[torch.tensor(ids)]
        for number, layer in enumerate(model.layers):
            y = self.normal(x, layer.attention_norm)
            q, k, v = (
                (y @ w.T).unflatten(1, (-1, model.config.head_size))
                for w in (layer.q, layer.k, layer.v)
            )
            q, k, v = (t.transpose(0, 1) for t in (q, k, v))
            q = rotate(q, angles.cos(), angles.sin())
            k = rotate(k, angles.cos(), angles.sin())
            kept.entries[number], (k, v) = self.join(
                kept.entries.get(number), k, v
            )
            x = x + self.mix(q, k, v).transpose(0, 1).flatten(1) @ layer.o.T
            x = x + layer.mlp(self.normal(x, layer.mlp_norm))
        kept.seen += new
        return self.normal(x, model.norm) @ model.head.T

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (t.repeat_interleave(len(q) // len(t), 0) for t in (k, v))
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
        hidden = self.hidden_from(q.shape[1], k.shape[1])
        return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v

    def normal(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.model.config.norm_eps)


class StartsAgain(ByHand):
    def position(self, kept: Kept, new: int) -> int:
        return 0


class TooFar(ByHand):
    def position(self, kept: Kept, new: int) -> int:
        return kept.seen + 1 if kept.seen else 0


class TooNear(ByHand):
    def position(self, kept: Kept, new: int) -> int:
        return max(kept.seen - 1, 0)


class PromptTwice(ByHand):
    def position(self, kept: Kept, new: int) -> int:
        return kept.seen + kept.first if kept.seen else 0


class FirstTokenDropped(ByHand):
    def join(self, old: Any, k: Tensor, v: Tensor) -> Any:
        if old is None:
            return (k[:, 1:], v[:, 1:]), (k, v)
        return super().join(old, k, v)


class FirstTokenDroppedAndCounted(FirstTokenDropped):
    def position(self, kept: Kept, new: int) -> int:
        return max(kept.seen - 1, 0)


class PromptNotKept(ByHand):
    def join(self, old: Any, k: Tensor, v: Tensor) -> Any:
        if old is None:
            return (k[:, :0], v[:, :0]), (k, v)
        return super().join(old, k, v)


class PromptNotKeptNorCounted(PromptNotKept):
    def position(self, kept: Kept, new: int) -> int:
        return kept.seen - kept.first if kept.seen else 0


class TopLeft(ByHand):
    def hidden_from(self, new: int, length: int) -> Tensor:
        return torch.ones(new, length, dtype=torch.bool).triu(1)


class TopLeftOfSeveral(TopLeft):
    def hidden_from(self, new: int, length: int) -> Tensor:
        hidden = super().hidden_from(new, length)
        return hidden if new > 1 else torch.zeros_like(hidden)


class NoMaskLater(ByHand):
    def hidden_from(self, new: int, length: int) -> Tensor:
        hidden = super().hidden_from(new, length)
        return hidden if new == length else torch.zeros_like(hidden)


class NoMask(ByHand):
    def hidden_from(self, new: int, length: int) -> Tensor:
        return torch.zeros(new, length, dtype=torch.bool)


class ReadsBeforeItKeeps(ByHand):
    def join(self, old: Any, k: Tensor, v: Tensor) -> Any:
        kept, _ = super().join(old, k, v)
        return kept, old or kept

    def hidden_from(self, new: int, length: int) -> Tensor:
        """Queries and keys are of one call in the first alone."""
        hidden = torch.zeros(new, length, dtype=torch.bool)
        return hidden.logical_not().triu(1) if self.first else hidden

    def step(self, kept: Kept, ids: list[int]) -> Tensor:
        self.first = not kept.seen
        return super().step(kept, ids)


class WindowEndsBeforeItself(ByHand):
    def hidden_from(self, new: int, length: int) -> Tensor:
        hidden = torch.ones(new, length).triu(length - new).bool()
        hidden[0, 0] &= length != new
        return hidden


class LastKeptLost(ByHand):
    def hidden_from(self, new: int, length: int) -> Tensor:
        hidden = super().hidden_from(new, length)
        if length - new > 1:
            hidden[:, length - new - 1] = True
        return hidden


class NeverEmptied(ByHand):
    def __init__(self, model: Llama) -> None:
        super().__init__(model)
        self.kept = Kept()

    def start(self) -> Kept:
        return self.kept


class PositionsEmptiedAlone(NeverEmptied):
    def start(self) -> Kept:
        self.kept.seen = 0
        return self.kept


BROKEN: dict[type[ByHand], str] = {
    StartsAgain: "positions start again at zero",
    TooFar: "positions are one too far",
    TooNear: "positions are one too near",
    PromptTwice: "too far by the prompt's length",
    FirstTokenDropped: "first token's keys and values are missing",
    FirstTokenDroppedAndCounted: "positions are counted without it",
    PromptNotKept: "first call computed never entered the cache",
    PromptNotKeptNorCounted: "first call computed never entered the cache",
    TopLeft: "mask is aligned top-left",
    TopLeftOfSeveral: "mask is aligned top-left",
    NoMaskLater: "see each other's future",
    NoMask: "no mask is applied",
    ReadsBeforeItKeeps: "does not see its own key and value",
    WindowEndsBeforeItself: "does not see its own key and value",
    LastKeptLost: "newest kept entry is not seen",
    NeverEmptied: "still holds an earlier prompt",
    PositionsEmptiedAlone: "the positions did start again",
}


def test_the_right_one_by_hand_passes(tiny: Llama) -> None:
    hand = ByHand(tiny)
    assert 0 < check_cache(tiny, hand.start, hand.step, PROMPT) < 1e-4


@pytest.mark.parametrize("make", [GrowingCache, PreallocatedCache])
def test_labkits_caches_pass(tiny: Llama, make: Callable[..., Any]) -> None:
    def start() -> Any:
        more = () if make is GrowingCache else (len(PROMPT),)
        return make(tiny.config, *more)

    def step(cache: Any, ids: list[int]) -> Tensor:
        return tiny(torch.tensor([ids]), cache)[0]

    assert check_cache(tiny, start, step, PROMPT) < 1e-4


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.__name__)
def test_a_fault_made_by_hand_is_named(
    tiny: Llama, broken: type[ByHand]
) -> None:
    hand = broken(tiny)
    with pytest.raises(LabError) as raised:
        check_cache(tiny, hand.start, hand.step, PROMPT)
    text = str(raised.value)
    assert BROKEN[broken] in text
    assert "first wrong logits are those after position" in text
    assert text.count(". ") == 1


def test_every_known_fault_was_made_by_hand() -> None:
    for fault in FAULTS:
        assert any(text in fault.symptom for text in BROKEN.values())


@pytest.mark.parametrize("index", range(len(FAULTS)))
def test_a_planted_fault_is_named_with_its_own_symptom(
    tiny: Llama, index: int
) -> None:
    fault = FAULTS[index]
    with pytest.raises(LabError, match=re.escape(fault.symptom)):
        check_cache(tiny, *plant(tiny, fault), PROMPT)


def test_no_two_faults_look_alike(tiny: Llama) -> None:
    seen = []
    for fault in FAULTS:
        start, step = plant(tiny, fault)
        runs = [
            cache_check.run(start, step, cut, tiny.config.vocabulary)
            for cut in cuts_of(PROMPT)
        ]
        seen.append(torch.cat(runs))
    for one, other in itertools.combinations(seen, 2):
        assert cache_check.distance(one, other) > 0.1


def test_the_first_wrong_position_is_where_the_fault_begins(
    tiny: Llama,
) -> None:
    hand = TooFar(tiny)
    with pytest.raises(LabError, match=r"6 \+ 1 \+ 1 \+ 1 .* position 6:"):
        check_cache(tiny, hand.start, hand.step, PROMPT)


def test_an_unknown_fault_is_placed_and_measured(tiny: Llama) -> None:
    class Louder(ByHand):
        def join(self, old: Any, k: Tensor, v: Tensor) -> Any:
            return super().join(old, k, v if old is None else 2 * v)

    hand = Louder(tiny)
    with pytest.raises(LabError, match="No fault that this check knows"):
        check_cache(tiny, hand.start, hand.step, PROMPT)


def test_a_pass_that_is_wrong_without_a_cache(tiny: Llama) -> None:
    class Other(ByHand):
        def normal(self, x: Tensor, weight: Tensor) -> Tensor:
            return x

    hand = Other(tiny)
    with pytest.raises(LabError, match="The very first call is wrong"):
        check_cache(tiny, hand.start, hand.step, PROMPT)


def test_a_softmax_over_nothing_is_told_as_such(tiny: Llama) -> None:
    class SeesNothing(ByHand):
        def hidden_from(self, new: int, length: int) -> Tensor:
            return torch.ones(new, length).triu(length - new).bool()

    hand = SeesNothing(tiny)
    with pytest.raises(LabError, match=r"not a number.* over nothing"):
        check_cache(tiny, hand.start, hand.step, PROMPT)


def test_one_row_for_several_ids_is_refused(tiny: Llama) -> None:
    hand = ByHand(tiny)

    def last(kept: Kept, ids: list[int]) -> Tensor:
        return hand.step(kept, ids)[-1:]

    with pytest.raises(LabError, match="with a row of 97 for each"):
        check_cache(tiny, hand.start, last, PROMPT)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (Tensor.tolist, "list"),
        (Tensor.numpy, "ndarray"),
        (lambda logits: None, "NoneType"),
    ],
    ids=["list", "array", "nothing"],
)
def test_what_is_no_tensor_is_refused(
    tiny: Llama, change: Callable[[Tensor], object], kind: str
) -> None:
    hand = ByHand(tiny)

    def step(kept: Kept, ids: list[int]) -> Any:
        return change(hand.step(kept, ids))

    with pytest.raises(LabError, match=f"step gave a {kind} for 9 ids"):
        check_cache(tiny, hand.start, step, PROMPT)


def test_infinite_logits_are_infinitely_far() -> None:
    one, other = torch.tensor([[1.0, math.inf]]), torch.tensor([[1.0, 2.0]])
    assert cache_check.distance(one, other) == math.inf


def test_an_infinite_logit_is_placed(tiny: Llama) -> None:
    class Endless(ByHand):
        def step(self, kept: Kept, ids: list[int]) -> Tensor:
            logits = super().step(kept, ids)
            logits[-1, 3] = math.inf
            return logits

    hand = Endless(tiny)
    with pytest.raises(LabError, match=r"position 8: one is not finite"):
        check_cache(tiny, hand.start, hand.step, PROMPT)


LONG = list(range(3, 23))
"""20 ids: 80 in four cuts, where `tiny` has a context of 64."""


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.__name__)
def test_a_fault_is_named_where_others_leave_the_context(
    tiny: Llama, broken: type[ByHand]
) -> None:
    hand = broken(tiny)
    with pytest.raises(LabError, match=BROKEN[broken]):
        check_cache(tiny, hand.start, hand.step, LONG)


@pytest.mark.parametrize("index", range(len(FAULTS)))
def test_a_planted_fault_has_room(tiny: Llama, index: int) -> None:
    fault = FAULTS[index]
    with pytest.raises(LabError, match=re.escape(fault.symptom)):
        check_cache(tiny, *plant(tiny, fault), LONG)


def test_a_cache_that_is_full_of_old_prompts_is_named(tiny: Llama) -> None:
    """The fourth cut does not fit; the second and third tell enough."""
    left = GrowingCache(tiny.config)

    def step(cache: GrowingCache, ids: list[int]) -> Tensor:
        return tiny(torch.tensor([ids]), cache)[0]

    with pytest.raises(LabError, match="still holds an earlier prompt"):
        check_cache(tiny, lambda: left, step, LONG)


def test_a_refusal_is_placed_where_nothing_was_wrong_before(
    tiny: Llama,
) -> None:
    left = PreallocatedCache(tiny.config, len(PROMPT))

    def step(cache: PreallocatedCache, ids: list[int]) -> Tensor:
        return tiny(torch.tensor([ids]), cache)[0]

    placed = (
        r"call 1 of a new conversation of 6 \+ 1 \+ 1 \+ 1 tokens step "
        r"failed: 15 positions do not fit a cache made for 9"
    )
    with pytest.raises(LabError, match=placed):
        check_cache(tiny, lambda: left, step, PROMPT)


def test_a_prompt_beyond_the_context_is_the_models_refusal(
    tiny: Llama,
) -> None:
    hand = ByHand(tiny)
    with pytest.raises(LabError, match=r"^70 tokens do not fit"):
        check_cache(tiny, hand.start, hand.step, list(range(70)))


@pytest.mark.parametrize("prompt", [[], [5, 6, 7], [5] * 9, [5, 6] * 4])
def test_a_prompt_that_hides_faults_is_refused(
    tiny: Llama, prompt: list[int]
) -> None:
    hand = ByHand(tiny)
    with pytest.raises(LabError, match="at least six ids"):
        check_cache(tiny, hand.start, hand.step, prompt)


def test_the_learners_own_error_is_not_hidden(tiny: Llama) -> None:
    def step(kept: Kept, ids: list[int]) -> Tensor:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        check_cache(tiny, Kept, step, PROMPT)
