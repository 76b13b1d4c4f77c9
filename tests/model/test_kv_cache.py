"""Both caches behind one interface, and the arithmetic against tensors."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from labkit import costs, kv_cache
from labkit.errors import LabError
from labkit.fused import fuse
from labkit.kv_cache import GrowingCache, KVCache, PreallocatedCache
from labkit.library import LibraryModel
from labkit.llama import Llama

Make = Callable[[Llama], KVCache]
MAKERS: dict[str, Make] = {
    "growing": lambda model: GrowingCache(model.config),
    "preallocated": lambda model: PreallocatedCache(model.config, 16),
}
IDS = [5, 9, 11, 3, 40, 41]


@pytest.fixture(params=MAKERS)
def cache(request: pytest.FixtureRequest, tiny: Llama) -> KVCache:
    return MAKERS[request.param](tiny)


def run(model: Llama, ids: list[int], cache: KVCache) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([ids]), cache, last_only=True)


def test_length_and_view(tiny: Llama, cache: KVCache) -> None:
    assert cache.length == 0
    run(tiny, IDS, cache)
    run(tiny, [7], cache)
    assert cache.length == 7
    keys, values = cache.view(1)
    assert keys.shape == values.shape == (1, 2, 7, 8)
    assert not torch.equal(keys, values)


def test_appending_leaves_what_was_there(tiny: Llama, cache: KVCache) -> None:
    run(tiny, IDS, cache)
    before = [cache.view(layer)[0].clone() for layer in (0, 1)]
    run(tiny, [7], cache)
    for layer in (0, 1):
        assert torch.equal(cache.view(layer)[0][:, :, :6], before[layer])


def test_truncated_it_goes_on_as_if_never_longer(
    tiny: Llama, cache: KVCache
) -> None:
    run(tiny, IDS, cache)
    cache.truncate(4)
    assert cache.length == 4
    made = run(tiny, [8], cache)
    expected = run(tiny, [*IDS[:4], 8], GrowingCache(tiny.config))
    assert torch.allclose(made, expected, atol=5e-4)


def test_a_second_prompt_needs_a_reset(tiny: Llama, cache: KVCache) -> None:
    fresh = run(tiny, [3, 1, 4], GrowingCache(tiny.config))
    run(tiny, IDS, cache)
    stale = run(tiny, [3, 1, 4], cache)
    assert (stale - fresh).abs().max() > 0.01
    cache.reset()
    assert cache.length == 0
    again = run(tiny, [3, 1, 4], cache)
    assert torch.allclose(again, fresh, atol=5e-4)


def test_an_interrupted_pass_leaves_no_trace(
    tiny: Llama, cache: KVCache
) -> None:
    run(tiny, IDS, cache)
    entry = torch.ones(1, 2, 3, 8)
    cache.append(0, entry, entry)  # stopped before layer 1
    assert cache.length == 6
    made = run(tiny, [7], cache)
    expected = run(tiny, [*IDS, 7], GrowingCache(tiny.config))
    assert torch.allclose(made, expected, atol=5e-4)
    assert cache.view(0)[0].shape == (1, 2, 7, 8)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((2, 2, 1, 8), torch.float32),
        ((1, 1, 1, 8), torch.float32),
        ((1, 2, 1, 4), torch.float32),
        ((1, 2, 1, 8), torch.bfloat16),
    ],
    ids=str,
)
def test_what_belongs_to_another_batch_or_model_is_refused(
    tiny: Llama, cache: KVCache, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    run(tiny, IDS, cache)
    entry = torch.ones(shape, dtype=dtype)
    with pytest.raises(LabError, match="This cache is for 1 sequences"):
        cache.append(0, entry, entry)


@pytest.mark.parametrize("layers", [1, 5])
@pytest.mark.parametrize("model", ["ours", "library"])
def test_a_cache_of_another_depth_is_refused(
    pair: tuple[Any, Llama], layers: int, model: str
) -> None:
    runner = pair[1] if model == "ours" else LibraryModel(pair[0])
    config = dataclasses.replace(runner.config, layers=layers)
    cache = PreallocatedCache(config, 16)
    with pytest.raises(LabError, match=f"{layers} layers and the model 2"):
        runner(torch.tensor([IDS]), cache)


def test_the_librarys_model_does_not_hold_on_to_a_cache(
    pair: tuple[Any, Llama],
) -> None:
    model = LibraryModel(pair[0])
    cache = GrowingCache(model.config)
    gc.disable()
    try:
        with torch.inference_mode():
            model(torch.tensor([IDS]), cache)
        gone = weakref.ref(cache)
        del cache
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("length", [-1, 7])
def test_it_cannot_be_cut_to_more_than_it_holds(
    tiny: Llama, cache: KVCache, length: int
) -> None:
    run(tiny, IDS, cache)
    with pytest.raises(LabError, match="from 0 to 6"):
        cache.truncate(length)
    assert cache.length == 6


def test_cut_to_nothing(tiny: Llama, cache: KVCache) -> None:
    run(tiny, IDS, cache)
    cache.truncate(0)
    assert cache.length == 0
    run(tiny, IDS, cache)
    assert cache.length == 6


def test_both_hold_the_same_numbers(tiny: Llama) -> None:
    caches = [make(tiny) for make in MAKERS.values()]
    for one in caches:
        run(tiny, IDS, one)
        run(tiny, [7], one)
    for layer in (0, 1):
        for kept in (0, 1):
            a, b = (one.view(layer)[kept] for one in caches)
            assert torch.equal(a, b)


def test_a_full_cache_says_so(tiny: Llama) -> None:
    cache = PreallocatedCache(tiny.config, 6)
    run(tiny, IDS, cache)
    with pytest.raises(LabError, match="7 positions do not fit a cache"):
        run(tiny, [7], cache)


@pytest.mark.parametrize("sizes", [(0, 1), (4, 0)])
def test_no_room_at_all_is_refused(
    tiny: Llama, sizes: tuple[int, int]
) -> None:
    with pytest.raises(LabError, match="at least one position"):
        PreallocatedCache(tiny.config, *sizes)


def test_an_empty_cache_has_no_view(tiny: Llama) -> None:
    with pytest.raises(LabError, match="empty"):
        GrowingCache(tiny.config).view(0)


@pytest.mark.parametrize("dtype", sorted(set(kv_cache.BITS) - {"int4"}))
@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_are_those_of_the_tensors(
    tiny: Llama, dtype: str, batch: int
) -> None:
    cache = PreallocatedCache(
        tiny.config, 16, batch, dtype=getattr(torch, dtype)
    )
    expected = kv_cache.bytes_per_batch(tiny.config, [16] * batch, dtype)
    assert cache.nbytes == expected


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("length", [5, 6])
def test_bytes_of_a_growing_cache_are_those_of_its_length(
    make_pair: Any, length: int, fused: bool
) -> None:
    tiny = make_pair()[1]
    if fused:
        tiny = fuse(tiny)
    cache = GrowingCache(tiny.config)
    run(tiny, IDS, cache)
    cache.truncate(length)
    assert cache.nbytes == kv_cache.bytes_per_sequence(tiny.config, length)
    views = [kept for layer in (0, 1) for kept in cache.view(layer)]
    held = sum(kept.untyped_storage().nbytes() for kept in views)
    assert held == cache.nbytes


def test_four_bits_are_half_a_byte(tiny: Llama) -> None:
    eight = kv_cache.bytes_per_token(tiny.config, "int8")
    assert kv_cache.bytes_per_token(tiny.config, "int4") * 2 == eight


def test_an_unknown_format_is_refused(tiny: Llama) -> None:
    with pytest.raises(LabError, match="float32"):
        kv_cache.bytes_per_token(tiny.config, "float33")


@pytest.mark.parametrize(
    ("heads", "kind"), [(4, "MHA"), (2, "GQA"), (1, "MQA")]
)
def test_kind(make_pair: Any, heads: int, kind: str) -> None:
    _, model = make_pair(num_key_value_heads=heads)
    assert kv_cache.kind(model.config) == kind
    assert kv_cache.bytes_per_token(model.config) == heads * 2 * 2 * 8 * 4


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_library(
    make_pair: Any, tied: bool
) -> None:
    library, ours = make_pair(tie_word_embeddings=tied)
    expected = sum(p.numel() for p in library.parameters())
    assert costs.parameters(ours.config) == expected
    assert costs.weight_bytes(ours.config) == 4 * expected


@pytest.mark.parametrize(("new", "length"), [(6, 6), (1, 6), (2, 6)])
def test_flops_are_those_that_pytorch_counts(
    make_pair: Any, new: int, length: int
) -> None:
    """PyTorch's counter sees the masked half as well; without it: the sum."""
    from torch.utils.flop_counter import FlopCounterMode

    from labkit.llama import naive_attention

    library, _ = make_pair()
    ours = Llama.of(library, attention=naive_attention)
    cache = GrowingCache(ours.config)
    ids = torch.tensor([IDS])
    with torch.no_grad():
        if new < length:
            ours(ids[:, : length - new], cache)
        counter = FlopCounterMode(display=False)
        with counter:
            ours(ids[:, length - new :], cache, last_only=True)
    config = ours.config
    square = 4 * config.layers * config.query_heads * config.head_size
    expected = costs.linear_flops(config, new) + square * new * length
    assert counter.get_total_flops() == expected
    pairs = sum(range(length - new + 1, length + 1))
    assert costs.attention_flops(config, new, length) == square * pairs
