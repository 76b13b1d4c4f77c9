"""Prefill, decode and the loop, on small random and on scripted models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from labkit import generation, library
from labkit.agreement import Difference, first_difference
from labkit.errors import LabError
from labkit.generation import Sampling, decode, generate, prefill, stream
from labkit.kv_cache import GrowingCache, PreallocatedCache
from labkit.library import LibraryModel
from labkit.llama import Llama
from labkit.llama_config import Config

PROMPT = [5, 9, 11, 3, 40]
END = 2


class Scripted:
    """Says the given ids one after the other, whatever it is asked."""

    def __init__(self, config: Config, says: Sequence[int]) -> None:
        self.config, self.dtype = config, torch.float32
        self.says, self.asked = says, 0

    def __call__(
        self, ids: torch.Tensor, cache: Any, *, last_only: bool = False
    ) -> torch.Tensor:
        shape = (1, 2, ids.shape[1], 8)
        for layer in range(self.config.layers):
            cache.append(layer, torch.zeros(shape), torch.zeros(shape))
        logits = torch.zeros(1, 1, 97)
        logits[0, 0, self.says[self.asked]] = 1
        self.asked += 1
        return logits


def ticking() -> Iterator[int]:
    now = 0
    while True:
        yield now
        now += 1_000_000_000


@pytest.mark.parametrize("model", ["ours", "library"])
@pytest.mark.parametrize("prompt", [PROMPT, [7], [5] * 40], ids=len)
def test_tokens_equal_the_librarys(
    pair: tuple[Any, Llama], model: str, prompt: list[int]
) -> None:
    theirs, ours = pair
    expected = library.generate(theirs, prompt, 20).ids
    runner = ours if model == "ours" else LibraryModel(theirs)
    assert generate(runner, prompt, 20, never=[END]).ids == expected


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("model", ["ours", "library"])
def test_prefill_in_chunks(
    pair: tuple[Any, Llama], model: str, chunk: int
) -> None:
    runner = pair[1] if model == "ours" else LibraryModel(pair[0])
    whole = prefill(runner, PROMPT, GrowingCache(runner.config))
    cache = PreallocatedCache(runner.config, 5)
    parts = prefill(runner, PROMPT, cache, chunk=chunk)
    assert whole.shape == (97,)
    assert torch.allclose(whole, parts, atol=5e-4)
    assert cache.length == 5


def test_a_decode_step_is_one_more_position(tiny: Llama) -> None:
    cache = PreallocatedCache(tiny.config, 6)
    prefill(tiny, PROMPT, cache)
    stepped = decode(tiny, 8, cache)
    whole = prefill(tiny, [*PROMPT, 8], GrowingCache(tiny.config))
    assert torch.allclose(stepped, whole, atol=5e-4)
    assert cache.length == 6


def test_it_goes_on_after_what_a_cache_holds(tiny: Llama) -> None:
    cache = PreallocatedCache(tiny.config, 20)
    prefill(tiny, PROMPT[:3], cache)
    made = generate(tiny, PROMPT[3:], 6, cache=cache)
    assert made.ids == generate(tiny, PROMPT, 6).ids
    assert cache.length == 10


@pytest.mark.parametrize("end", [[41], [41, 60], [60, 41]])
def test_it_stops_at_any_end_id(tiny: Llama, end: list[int]) -> None:
    model = Scripted(tiny.config, [7, 8, 41, 60, 9])
    made = generate(model, PROMPT, 5, stop=end)
    assert made.ids == (7, 8, 41)
    other = Scripted(tiny.config, [7, 60, 41, 9, 9])
    expected = (7, 60) if 60 in end else (7, 60, 41)
    assert generate(other, PROMPT, 5, stop=end).ids == expected


def test_without_end_ids_the_count_is_kept(tiny: Llama) -> None:
    model = Scripted(tiny.config, [END] * 5)
    assert generate(model, PROMPT, 5).ids == (END,) * 5


def test_never_is_never_chosen(tiny: Llama) -> None:
    assert (
        END
        not in generate(
            Scripted(tiny.config, [END] * 5), PROMPT, 5, never=[END]
        ).ids
    )


def test_nothing_is_computed_after_the_last_token(tiny: Llama) -> None:
    model = Scripted(tiny.config, [7] * 9)
    generate(model, PROMPT, 4)
    assert model.asked == 4
    stopped = Scripted(tiny.config, [7, END, 7])
    generate(stopped, PROMPT, 4, stop=[END])
    assert stopped.asked == 2


def test_a_stream_computes_a_token_when_it_is_asked(tiny: Llama) -> None:
    model = Scripted(tiny.config, [7] * 9)
    tokens = stream(model, PROMPT, 4)
    assert model.asked == 0
    next(tokens)
    assert model.asked == 1


def test_times_are_of_the_one_clock(tiny: Llama) -> None:
    clock = ticking()
    made = generate(
        Scripted(tiny.config, [7] * 3), PROMPT, 3, clock=lambda: next(clock)
    )
    assert made.start_ns == 0
    assert made.token_ns == (1_000_000_000, 2_000_000_000, 3_000_000_000)
    assert made.seconds == 4.0
    assert made.ttft_s == 1.0
    assert made.itl_s == (1.0, 1.0)
    assert made.tpot_s == 1.0
    assert made.tokens_per_second == 0.75


def test_one_token_has_no_tpot(tiny: Llama) -> None:
    made = generate(Scripted(tiny.config, [7]), PROMPT, 1)
    assert made.itl_s == ()
    assert made.tpot_s is None


def test_the_librarys_tokens_have_no_times(pair: tuple[Any, Llama]) -> None:
    made = library.generate(pair[0], PROMPT, 3)
    assert made.token_ns is None
    assert made.ttft_s is None
    assert made.tpot_s is None


def test_greedy_takes_the_first_of_equals() -> None:
    logits = torch.tensor([0.0, 3.0, 1.0, 3.0])
    assert generation.greedy(logits) == 1
    assert generation.greedy(logits, never=[1]) == 3
    assert logits[1] == 3.0


@pytest.mark.parametrize(
    ("prompt", "count", "words"),
    [
        ([], 4, "at least one"),
        ([5], 0, "at least one"),
        ([5], -3, "at least one"),
        ([5] * 60, 5, "do not fit a context of 64"),
    ],
)
@pytest.mark.parametrize("model", ["ours", "library"])
def test_what_cannot_be_generated_is_refused_at_once(
    pair: tuple[Any, Llama],
    model: str,
    prompt: list[int],
    count: int,
    words: str,
) -> None:
    runner = pair[1] if model == "ours" else LibraryModel(pair[0])
    with pytest.raises(LabError, match=words):
        stream(runner, prompt, count)


def test_the_context_can_be_filled_to_the_last_token(tiny: Llama) -> None:
    assert len(generate(tiny, [5] * 60, 4).ids) == 4


def test_what_a_cache_holds_counts_towards_the_context(tiny: Llama) -> None:
    cache = PreallocatedCache(tiny.config, 64)
    prefill(tiny, [5] * 60, cache)
    with pytest.raises(LabError, match="60 cached tokens"):
        stream(tiny, [5], 4, cache=cache)


def test_the_library_refuses_what_is_past_the_context(
    pair: tuple[Any, Llama],
) -> None:
    model = LibraryModel(pair[0])
    with pytest.raises(LabError, match="65 tokens do not fit"):
        prefill(model, [5] * 65, GrowingCache(model.config))


@pytest.mark.parametrize("prompt", [[], [5]])
def test_prefill_wants_tokens_and_chunks(
    tiny: Llama, prompt: list[int]
) -> None:
    with pytest.raises(LabError, match="at least one prompt token"):
        prefill(tiny, prompt, GrowingCache(tiny.config), chunk=0)


def counts_of(sampling: Sampling, draws: int = 4000) -> list[float]:
    """The share of each of four ids; their chances are 4, 3, 2, 1 in 10."""
    logits = torch.tensor([3.0, 4.0, 1.0, 2.0]).log()
    generator = torch.Generator().manual_seed(sampling.seed)
    found = [0] * 4
    for _ in range(draws):
        found[generation.draw(logits, sampling, generator)] += 1
    return [count / draws for count in found]


@pytest.mark.parametrize(
    ("sampling", "shares"),
    [
        (Sampling(), [0.3, 0.4, 0.1, 0.2]),
        (Sampling(temperature=0.5), [9 / 30, 16 / 30, 1 / 30, 4 / 30]),
        (Sampling(top_k=2), [3 / 7, 4 / 7, 0, 0]),
        (Sampling(top_p=0.41), [3 / 7, 4 / 7, 0, 0]),
        (Sampling(top_p=0.39), [0, 1, 0, 0]),
        (Sampling(top_k=3, top_p=0.99), [3 / 9, 4 / 9, 0, 2 / 9]),
        (Sampling(temperature=1e-6), [0, 1, 0, 0]),
    ],
    ids=str,
)
def test_shares_of_drawn_tokens(
    sampling: Sampling, shares: list[float]
) -> None:
    found = counts_of(sampling)
    assert found == pytest.approx(shares, abs=0.03)
    assert [f == 0 for f in found] == [s == 0 for s in shares]


def test_a_seed_draws_the_same_again_and_another_does_not(
    tiny: Llama,
) -> None:
    first, again, other = (
        generate(tiny, PROMPT, 30, sampling=Sampling(seed=seed)).ids
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_k": 2.5},
        {"seed": 1.5},
        {"seed": 2**70},
        {"top_p": 0},
        {"top_p": 1.1},
    ],
    ids=str,
)
def test_sampling_outside_of_its_range_is_refused(wrong: Any) -> None:
    with pytest.raises(LabError):
        Sampling(**wrong)


@pytest.mark.parametrize("temperature", [1e-308, 1e300])
def test_an_extreme_temperature_draws_all_the_same(
    temperature: float,
) -> None:
    made = counts_of(Sampling(temperature=temperature), draws=50)
    assert sum(made) == 1


@pytest.mark.parametrize(
    ("logits", "never"),
    [
        ([1.0, 2.0], [0, 1]),
        ([1.0, float("nan")], []),
        ([1.0, float("inf")], []),
    ],
)
def test_no_token_to_choose_is_said(
    logits: list[float], never: list[int]
) -> None:
    values, generator = torch.tensor(logits), torch.Generator()
    with pytest.raises(LabError, match="No token can be chosen"):
        generation.greedy(values, never)
    with pytest.raises(LabError, match="No token can be chosen"):
        generation.draw(values, Sampling(), generator, never)


@pytest.mark.parametrize("wrong", [-1, 97, 500])
def test_an_id_outside_of_the_vocabulary_is_refused(
    pair: tuple[Any, Llama], wrong: int
) -> None:
    theirs, ours = pair
    with pytest.raises(LabError, match=f"{wrong} is no token id"):
        stream(ours, PROMPT, 3, never=[wrong])
    with pytest.raises(LabError, match=f"{wrong} is no token id"):
        generate(ours, [wrong], 3)
    with pytest.raises(LabError, match=f"{wrong} is no token id"):
        library.generate(theirs, [wrong], 3)


def test_a_cache_that_is_too_small_is_refused_before_the_first_token(
    tiny: Llama,
) -> None:
    cache = PreallocatedCache(tiny.config, 7)
    with pytest.raises(LabError, match="do not fit a cache made for 7"):
        stream(tiny, PROMPT, 4, cache=cache)
    with pytest.raises(LabError, match="do not fit a cache made for 7"):
        prefill(tiny, [5] * 8, cache, chunk=3)
    assert cache.length == 0
    assert len(generate(tiny, PROMPT, 3, cache=cache).ids) == 3


def test_the_last_token_begins_the_next_turn(tiny: Llama) -> None:
    cache = PreallocatedCache(tiny.config, 40)
    first = generate(tiny, PROMPT, 4, cache=cache).ids
    assert cache.length == len(PROMPT) + 3
    again = generate(tiny, [first[-1], 7, 8], 4, cache=cache).ids
    whole = generate(tiny, [*PROMPT, *first, 7, 8], 4).ids
    assert again == whole


def test_equal_answers_have_no_difference(tiny: Llama) -> None:
    assert first_difference(tiny, PROMPT, [1, 2], [1, 2]) is None


def test_a_difference_says_where_and_by_how_much(tiny: Llama) -> None:
    expected = generate(tiny, PROMPT, 6).ids
    wrong = (*expected[:3], (expected[3] + 1) % 97, *expected[4:])
    found = first_difference(tiny, PROMPT, expected, wrong)
    assert found is not None
    assert found.position == 3
    logits = prefill(tiny, [*PROMPT, *expected[:3]], GrowingCache(tiny.config))
    gap = float(logits[expected[3]] - logits[wrong[3]])
    assert found.gap == pytest.approx(gap, abs=5e-4)
    assert "token 3" in str(found)
    assert "too far apart" in str(found)
    assert not found.near_tie


def test_an_answer_that_ends_early(tiny: Llama) -> None:
    found = first_difference(tiny, PROMPT, [1, 2, 3], [1, 2])
    assert found == Difference(2, 3, None, None)
    assert "ends at token 2" in str(found)


def test_a_near_tie_is_named() -> None:
    near = Difference(4, 7, 8, -2e-4)
    assert near.near_tie
    assert "0.0002 apart: a near tie" in str(near)
