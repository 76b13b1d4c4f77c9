"""The fast operations give what the plain ones give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labkit import fused
from labkit.kv_cache import PreallocatedCache
from labkit.llama import Attention, Llama, fused_attention, naive_attention

MakePair = Callable[..., tuple[Any, Llama]]
DTYPES = [torch.float32, torch.bfloat16]
LENGTH = 12


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each product of a batch that was made."""
    seen: list[int] = []
    bmm = torch.bmm

    def counting(one: Tensor, other: Tensor) -> Tensor:
        seen.append(other.shape[2])
        return bmm(one, other)

    monkeypatch.setattr(torch, "bmm", counting)
    return seen


@pytest.mark.parametrize("rows", [1, 2, 8, 9])
@pytest.mark.parametrize("out", [64, 97])
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_is_f_linear(
    products: list[int], rows: int, out: int, dtype: torch.dtype
) -> None:
    """In parts for few rows in FP32 that can be cut, as it is otherwise."""
    x = torch.randn(rows, 1, 32).to(dtype)
    weight = torch.randn(out, 32).to(dtype)
    made, wanted = fused.linear(x, weight), F.linear(x, weight)
    in_parts = dtype == torch.float32 and out == 64 and rows <= 8
    assert products == ([rows] if in_parts else [])
    assert made.shape == wanted.shape
    assert made.dtype == dtype
    assert made.is_contiguous()
    torch.testing.assert_close(made, wanted)


def test_linear_takes_any_shape_and_stride(products: list[int]) -> None:
    weight = torch.randn(16, 8)
    x = torch.randn(8, 2, 3).permute(1, 2, 0)
    torch.testing.assert_close(fused.linear(x, weight), F.linear(x, weight))
    assert products == [6]


def in_chunks(
    model: Llama,
    ids: Tensor,
    sizes: Sequence[int],
    padding: Tensor | None = None,
) -> Tensor:
    """Logits of all positions, from calls of so many ids with a cache."""
    ends = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    with torch.inference_mode():
        cache = PreallocatedCache(
            model.config, ids.shape[1], len(ids), model.dtype
        )
        parts = [
            model(ids[:, start:end], cache, padding=padding)
            for start, end in pairwise(ends)
        ]
    return torch.cat(parts, dim=1)


@pytest.fixture
def make_both(make_pair: MakePair) -> Callable[..., tuple[Llama, Llama]]:
    """Makes a plain model and a fused one, with the same weights."""

    def make(
        dtype: torch.dtype = torch.float32,
        attention: Attention = fused_attention,
        **changes: Any,
    ) -> tuple[Llama, Llama]:
        library = make_pair(**changes)[0].to(dtype)
        plain = Llama.of(library, attention)
        return plain, fused.fuse(Llama.of(library, attention))

    return make


def close(made: Tensor, wanted: Tensor) -> None:
    """Equal but for rounding; a number in BF16 has eight bits."""
    if wanted.dtype == torch.bfloat16:
        apart = (made.float() - wanted.float()).abs().max()
        assert apart < 0.05 * wanted.float().abs().max()
    else:
        torch.testing.assert_close(made, wanted, atol=1e-4, rtol=1e-4)
    assert made.dtype == wanted.dtype


@pytest.mark.parametrize("kv_heads", [4, 2, 1], ids=["MHA", "GQA", "MQA"])
@pytest.mark.parametrize("attention", [fused_attention, naive_attention])
@pytest.mark.parametrize("dtype", DTYPES, ids=["FP32", "BF16"])
@pytest.mark.parametrize(
    "sizes", [(LENGTH,), (7, 4, 1), (1,) * LENGTH, (3, 9)], ids=str
)
def test_a_fused_model_is_the_plain_one(
    make_both: Callable[..., tuple[Llama, Llama]],
    kv_heads: int,
    attention: Attention,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
) -> None:
    plain, model = make_both(dtype, attention, num_key_value_heads=kv_heads)
    ids = torch.arange(1, 1 + LENGTH)[None]
    with torch.inference_mode():
        wanted = plain(ids)
    assert model.attention is attention
    close(in_chunks(model, ids, sizes), wanted)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_the_head_is_the_embedding_only_if_tied(
    make_both: Callable[..., tuple[Llama, Llama]], tied: bool
) -> None:
    plain, model = make_both(tie_word_embeddings=tied)
    assert torch.equal(plain.head, plain.embedding) == tied
    assert torch.equal(model.head, plain.head)
    assert torch.equal(model.embedding, plain.embedding)
    ids = torch.arange(1, 1 + LENGTH)[None]
    with torch.inference_mode():
        close(model(ids), plain(ids))


@pytest.mark.parametrize("batch", [1, 3])
def test_a_fused_batch_gives_the_same(make_pair: MakePair, batch: int) -> None:
    """A prompt, then several positions at once, then one."""
    ids = torch.arange(1, 1 + 12 * batch).view(batch, 12)
    plain = make_pair()[1]
    with torch.inference_mode():
        wanted = plain(ids)
        model = fused.fuse(plain)
        cache = PreallocatedCache(model.config, 12, batch)
        parts = [model(ids[:, s], cache) for s in (slice(0, 7), slice(7, 11))]
        parts.append(model(ids[:, 11:], cache, last_only=True))
    torch.testing.assert_close(torch.cat(parts, dim=1), wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=["FP32", "BF16"])
@pytest.mark.parametrize(
    "sizes", [(LENGTH,), (7, 4, 1), (1,) * LENGTH, (2, 10)], ids=str
)
def test_fused_with_padding_gives_the_same(
    make_both: Callable[..., tuple[Llama, Llama]],
    dtype: torch.dtype,
    sizes: tuple[int, ...],
) -> None:
    """Each sequence says what it says alone, without its fillers."""
    plain, model = make_both(dtype)
    ids = torch.arange(1, 1 + 3 * LENGTH).view(3, LENGTH)
    padding = torch.tensor([0, 2, 7])
    made = in_chunks(model, ids, sizes, padding)
    for row, fillers in enumerate(padding.tolist()):
        with torch.inference_mode():
            alone = plain(ids[row : row + 1, fillers:])[0]
        close(made[row, fillers:], alone)


@pytest.mark.parametrize("dtype", DTYPES)
def test_packed_matrices_are_copies_in_a_row(dtype: torch.dtype) -> None:
    first, second = torch.randn(3, 5).to(dtype), torch.randn(4, 2).to(dtype)
    one, two = fused.packed([first, second])
    assert torch.equal(one, first)
    assert torch.equal(two, second)
    assert one.data_ptr() != first.data_ptr()
    assert two.data_ptr() == one.data_ptr() + one.nbytes
    assert one.is_contiguous()
    assert two.is_contiguous()
