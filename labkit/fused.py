"""The same model with fewer, larger matrices, for speed.

A decode step is many small operations around a few large ones. Here the
queries, keys and values of a layer come from one matrix, and gate and up
from another: the same sums in fewer calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.llama import Layer, Llama


@dataclass(frozen=True)
class FusedLayer(Layer):
    """A layer whose q, k, v, gate and up are rows of two joined matrices."""

    qkv: Tensor
    gate_up: Tensor

    @classmethod
    def of(cls, layer: Layer) -> FusedLayer:
        """The same layer, its five matrices copied into two."""
        parts = (layer.q, layer.k, layer.v)
        qkv, gate_up = torch.cat(parts), torch.cat((layer.gate, layer.up))
        q, k, v = qkv.split([part.shape[0] for part in parts])
        gate, up = gate_up.chunk(2)
        return cls(
            layer.attention_norm,
            *(q, k, v, layer.o),
            layer.mlp_norm,
            *(gate, up, layer.down),
            qkv=qkv,
            gate_up=gate_up,
        )

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[batch, new, hidden] to three of [batch, new, heads x size]."""
        rows = [part.shape[0] for part in (self.q, self.k, self.v)]
        q, k, v = F.linear(x, self.qkv).split(rows, dim=-1)
        return q, k, v

    def mlp(self, x: Tensor) -> Tensor:
        """SwiGLU: down(silu(gate x) * up x); [batch, new, hidden]."""
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down)


def fuse(model: Llama) -> Llama:
    """Join a model's matrices layer by layer, in place; the same model.

    The separate ones are freed unless something else holds them (a
    transformers model that shares them): drop that first, or both copies
    stay in memory.
    """
    for index, layer in enumerate(model.layers):
        model.layers[index] = FusedLayer.of(layer)
    return model
