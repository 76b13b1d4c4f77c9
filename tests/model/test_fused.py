"""The fast operations give what the plain ones give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from labkit import fused
from labkit.kv_cache import PreallocatedCache
from labkit.llama import Llama

MakePair = Callable[..., tuple[Any, Llama]]


@pytest.mark.parametrize("rows", [1, 2, 8, 9])
@pytest.mark.parametrize("out", [64, 97])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_is_f_linear(rows: int, out: int, dtype: torch.dtype) -> None:
    torch.manual_seed(rows)
    x = torch.randn(rows, 1, 32).to(dtype)
    weight = torch.randn(out, 32).to(dtype)
    made, wanted = fused.linear(x, weight), F.linear(x, weight)
    assert made.shape == wanted.shape
    assert made.dtype == dtype
    assert made.is_contiguous()
    torch.testing.assert_close(made, wanted)


def test_linear_takes_any_shape_and_stride() -> None:
    weight = torch.randn(16, 8)
    x = torch.randn(8, 2, 3).permute(1, 2, 0)
    torch.testing.assert_close(fused.linear(x, weight), F.linear(x, weight))


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


def test_fused_with_padding_gives_the_same(make_pair: MakePair) -> None:
    ids = torch.tensor([[0, 0, 5, 6], [3, 4, 5, 6]])
    padding = torch.tensor([2, 0])
    plain = make_pair()[1]
    with torch.inference_mode():
        wanted = plain(ids, padding=padding)
        made = fused.fuse(plain)(ids, padding=padding)
    torch.testing.assert_close(made, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_matrices_are_copies_in_a_row(dtype: torch.dtype) -> None:
    first, second = torch.randn(3, 5).to(dtype), torch.randn(4, 2).to(dtype)
    one, two = fused.packed([first, second])
    assert torch.equal(one, first)
    assert torch.equal(two, second)
    assert one.data_ptr() != first.data_ptr()
    assert two.data_ptr() == one.data_ptr() + one.nbytes
    assert one.is_contiguous()
    assert two.is_contiguous()
