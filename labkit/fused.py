"""The same model in fewer and faster operations: the sums of `llama.py`.

A decode step reads every weight for one row of numbers, so memory sets its
pace. Two things keep `llama.py` from that pace, and are mended here:

- For a few rows in FP32 a matrix product of PyTorch may leave most of the
  bandwidth unused: on two AMD EPYC cores `F.linear` read 12 GB/s for one
  row, and `linear` 42 (docs/decode.md). It cuts the matrix into parts, which
  all cores share.
- Around the few large operations are many small ones. Here queries, keys
  and values come from one matrix, gate and up from another, and queries and
  keys are turned together.

On Linux the copies may be read through large pages besides: a page of 4 KiB is
looked up 130,000 times for each token, one of 2 MiB 260 times.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.llama import Layer, Llama, rotate

FEW_ROWS = 8
"""For more rows than these `F.linear` is taken. The bench times one row."""
PARTS = 8
"""Enough for eight cores; fewer would do on two."""


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """`F.linear`: [.., in] times [out, in] is [.., out].

    With few rows in FP32 it is one product of a batch: part by part,
    [out / PARTS, in] times [in, rows].
    """
    out, size = weight.shape
    rows = x.shape[:-1].numel()
    if rows > FEW_ROWS or out % PARTS or weight.dtype != torch.float32:
        return F.linear(x, weight)
    columns = x.reshape(rows, size).t().expand(PARTS, size, rows)
    made = torch.bmm(weight.view(PARTS, out // PARTS, size), columns)
    row_by_row = made.view(out, rows).t().contiguous()
    return row_by_row.view(*x.shape[:-1], out)


def packed(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Copies of matrices of one format, one after the other in memory."""
    sizes = [matrix.numel() for matrix in matrices]
    room = _large_pages(sum(matrix.nbytes for matrix in matrices))
    pieces = room.view(matrices[0].dtype).split(sizes)
    return [
        piece.view(matrix.shape).copy_(matrix)
        for piece, matrix in zip(pieces, matrices, strict=True)
    ]


def _large_pages(size: int) -> Tensor:
    """Bytes [size] that Linux may hold in large pages; ordinary elsewhere."""
    if sys.platform != "linux":
        return torch.empty(size, dtype=torch.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size, flags=flags)
    with contextlib.suppress(OSError):  # a kernel that has none
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


@dataclass(frozen=True)
class FusedLayer(Layer):
    """A layer whose q, k, v, gate and up are rows of two joined matrices."""

    qkv: Tensor
    gate_up: Tensor

    @classmethod
    def of(cls, layer: Layer) -> FusedLayer:
        """The same layer, its five matrices copied into two."""
        parts = (layer.q, layer.k, layer.v)
        joined = (torch.cat(parts), torch.cat((layer.gate, layer.up)))
        qkv, gate_up, o, down = packed([*joined, layer.o, layer.down])
        q, k, v = qkv.split([part.shape[0] for part in parts])
        gate, up = gate_up.chunk(2)
        # Also what is not joined: a view would keep the whole file in memory.
        norms = layer.attention_norm.clone(), layer.mlp_norm.clone()
        return cls(
            norms[0], q, k, v, o, norms[1], gate, up, down, qkv, gate_up
        )

    def output(self, mixed: Tensor) -> Tensor:
        """[batch, new, query heads x size] to [batch, new, hidden]."""
        return linear(mixed, self.o)

    def mlp(self, x: Tensor) -> Tensor:
        """SwiGLU: down(silu(gate x) * up x); [batch, new, hidden]."""
        gate, up = linear(x, self.gate_up).chunk(2, dim=-1)
        return linear(F.silu(gate) * up, self.down)


class FusedLlama(Llama):
    """A `Llama` with joined matrices; `fuse` makes one."""

    def __init__(self, model: Llama) -> None:
        self.config, self.attention = model.config, model.attention
        self.head = packed([model.head])[0]
        tied = model.head is model.embedding
        self.embedding = self.head if tied else model.embedding.clone()
        self.norm, self.frequencies = model.norm.clone(), model.frequencies
        model.head, model.embedding = self.head, self.embedding
        model.norm, self.layers = self.norm, model.layers
        for index, layer in enumerate(model.layers):
            self.layers[index] = FusedLayer.of(layer)  # frees the old one

    def _heads(
        self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As there, from one product, queries and keys turned together."""
        if not isinstance(layer, FusedLayer):
            raise TypeError("a fused model has fused layers alone")
        queries, kept = self.config.query_heads, self.config.kv_heads
        joined = linear(x, layer.qkv).unflatten(
            -1, (-1, self.config.head_size)
        )
        heads = joined.transpose(1, 2)
        turned = rotate(heads[:, : queries + kept], cos, sin)
        v = heads[:, queries + kept :]
        return turned[:, :queries], turned[:, queries:], v

    def _logits(self, x: Tensor) -> Tensor:
        """[batch, new, hidden] to [batch, new, vocabulary]."""
        return linear(x, self.head)


def fuse(model: Llama) -> FusedLlama:
    """The same model with joined matrices.

    It takes the given one over, layer by layer, and frees the separate
    matrices unless something else holds them (a transformers model that
    shares them): drop that first, or both copies stay in memory.
    """
    return FusedLlama(model)
