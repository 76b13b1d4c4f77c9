"""The Llama architecture in plain PyTorch, to be read in one sitting.

Token ids become vectors. Layer after layer, each vector looks at those
before it (attention) and is then changed on its own (MLP); at the end it is
compared with every token of the vocabulary. In shapes, `new` counts the
positions of this call and `length` all up to its end.

torch is loaded with this module; import it where a model is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.errors import LabError
from labkit.llama_config import Config

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""From queries, keys, values and a mask (None: causal) to mixed values."""


class Cache(Protocol):
    """What the model asks of a KV cache; `labkit.kv_cache` has two."""

    @property
    def layers(self) -> int:
        """For how many layers it is."""

    @property
    def length(self) -> int:
        """How many positions every layer holds."""

    def append(
        self, layer: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep a layer's new keys and values; return all that it holds."""


def first_position(config: Config, cache: Cache | None, new: int) -> int:
    """Where `new` positions begin; LabError when they do not fit."""
    start = 0 if cache is None else cache.length
    if start + new > config.context:
        raise LabError(
            f"{start + new} tokens do not fit a context of {config.context}: "
            "use a shorter text."
        )
    if cache is not None and cache.layers != config.layers:
        raise LabError(
            f"This cache has {cache.layers} layers and the model "
            f"{config.layers}: make one for this model."
        )
    return start


def inverse_frequencies(config: Config) -> Tensor:
    """By how much each pair of a head turns per position: [head_size / 2].

    In radians; pair i turns rope_base^(-2i / head_size) (RoPE: Su and
    others, 2021, arXiv:2104.09864). Scaling of the llama3 kind slows the
    slow pairs down, leaves the fast ones alone and goes smoothly between.
    """
    even = torch.arange(0, config.head_size, 2, dtype=torch.int64)
    plain = 1.0 / config.rope_base ** (even.float() / config.head_size)
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    wavelength = 2 * math.pi / plain
    turns = scaling.original_context / wavelength
    smooth = (turns - low) / (high - low)
    slowed = plain / scaling.factor
    between = (1 - smooth) * plain / scaling.factor + smooth * plain
    slow = wavelength > scaling.original_context / low
    fast = wavelength < scaling.original_context / high
    return torch.where(fast, plain, torch.where(slow, slowed, between))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + half) of each head by their position's angle.

    x: [batch, heads, new, head_size]; cos and sin: [batch or 1, 1, new,
    head_size].
    """
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def causal_mask(new: int, length: int) -> Tensor:
    """Which keys each query may see: [new, length], True where it may.

    The queries are the last `new` of `length` positions, so the triangle is
    aligned bottom-right: query i sees the first length - new + i + 1 keys,
    the last of which is itself.
    """
    return torch.ones(new, length, dtype=torch.bool).tril(length - new)


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Attention by PyTorch's kernel, which never holds all the scores.

    q: [batch, query_heads, new, head_size]; k, v: [batch, kv_heads, length,
    head_size]; mask: True where a query may look, None for causal. The
    result has q's shape.
    """
    new, length = q.shape[2], k.shape[2]
    if mask is None and new == 1:
        # One query sees every key: the query heads of a group become rows
        # of one matrix, and nothing is masked or repeated.
        rows = q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])
        return F.scaled_dot_product_attention(rows, k, v).reshape(q.shape)
    if mask is None and new < length:
        mask = causal_mask(new, length)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True
    )


def naive_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    """The same by the formula, holding new x length scores for each head."""
    return attention_weights(q, k, mask) @ _for_query_heads(v, q)


def attention_weights(
    q: Tensor, k: Tensor, mask: Tensor | None = None
) -> Tensor:
    """How much each query looks at each key; rows sum to 1.

    [batch, query_heads, new, length]: softmax of q k / sqrt(head_size)
    (Vaswani and others, 2017, arXiv:1706.03762).
    """
    if mask is None:
        mask = causal_mask(q.shape[2], k.shape[2])
    scores = q @ _for_query_heads(k, q).transpose(2, 3)
    scores = scores / math.sqrt(q.shape[3])
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)


def _for_query_heads(kept: Tensor, q: Tensor) -> Tensor:
    """Keys or values, repeated for each query head of their group."""
    return kept.repeat_interleave(q.shape[1] // kept.shape[1], dim=1)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer, matrices as the file has them: [out, in]."""

    attention_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    mlp_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[batch, new, hidden] to three of [batch, new, heads x size]."""
        return F.linear(x, self.q), F.linear(x, self.k), F.linear(x, self.v)

    def output(self, mixed: Tensor) -> Tensor:
        """[batch, new, query heads x size] to [batch, new, hidden]."""
        return F.linear(mixed, self.o)

    def mlp(self, x: Tensor) -> Tensor:
        """SwiGLU: down(silu(gate x) * up x); [batch, new, hidden]."""
        gated = F.silu(F.linear(x, self.gate)) * F.linear(x, self.up)
        return F.linear(gated, self.down)


class Llama:
    """A Llama-shaped model for inference, its weights used where they lie.

    `weights` are named as in the checkpoint's file. Raises LabError when
    one is missing or has another shape than `config` says.
    """

    def __init__(
        self,
        config: Config,
        weights: Mapping[str, Tensor],
        attention: Attention = fused_attention,
    ) -> None:
        _require(config, weights)
        self.config = config
        self.attention = attention
        self.embedding = weights["model.embed_tokens.weight"]
        self.layers = [
            Layer(*(weights[name] for name in config.layer_names(index)))
            for index in range(config.layers)
        ]
        self.norm = weights["model.norm.weight"]
        last = "model.embed_tokens" if config.tied else "lm_head"
        self.head = weights[f"{last}.weight"]
        self.frequencies = inverse_frequencies(config)

    @property
    def dtype(self) -> torch.dtype:
        """The format that it computes in, and that its cache holds."""
        return self.embedding.dtype

    @classmethod
    def load(
        cls, folder: Path, attention: Attention = fused_attention
    ) -> Llama:
        """From config.json and model.safetensors, mapped, as saved."""
        from safetensors.torch import load_file

        config = Config.read(folder)
        return cls(config, load_file(folder / "model.safetensors"), attention)

    @classmethod
    def of(cls, model: Any, attention: Attention = fused_attention) -> Llama:
        """From a transformers model, whose tensors are shared."""
        config = Config.from_dict(json.loads(model.config.to_json_string()))
        return cls(config, model.state_dict(), attention)

    def __call__(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        last_only: bool = False,
        padding: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token after each position.

        `ids`: [batch, new], coming after what `cache` holds, and appended
        to it. `padding`: [batch], how many fillers each sequence has on its
        left. Returns [batch, new, vocabulary], or [batch, 1, vocabulary]
        with `last_only`. LabError when the context is too short.
        """
        new = ids.shape[1]
        start = first_position(self.config, cache, new)
        cos, sin = self._angles(start, new, padding)
        mask = None if padding is None else _mask(start, new, padding)
        x = F.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            normal = self._normalize(x, layer.attention_norm)
            q, k, v = self._heads(layer, normal, cos, sin)
            if cache is not None:
                k, v = cache.append(index, k, v)
            mixed = self.attention(q, k, v, mask).transpose(1, 2).flatten(2)
            x = x + layer.output(mixed)
            x = x + layer.mlp(self._normalize(x, layer.mlp_norm))
        x = x[:, -1:] if last_only else x
        return self._logits(self._normalize(x, self.norm))

    def _angles(
        self, start: int, new: int, padding: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every position's angles, for `rotate`."""
        positions = torch.arange(start, start + new)[None]
        if padding is not None:
            positions = (positions - padding[:, None]).clamp(min=0)
        half = positions[:, None, :, None] * self.frequencies
        angles = torch.cat((half, half), dim=-1)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def _normalize(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm: each vector over its root mean square, times weights."""
        return F.rms_norm(x, weight.shape, weight, self.config.norm_eps)

    def _heads(
        self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys after RoPE, and values: [batch, heads, new, size].

        x: [batch, new, hidden].
        """
        q, k, v = (
            made.unflatten(-1, (-1, self.config.head_size)).transpose(1, 2)
            for made in layer.queries_keys_values(x)
        )
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def _logits(self, x: Tensor) -> Tensor:
        """[batch, new, hidden] to [batch, new, vocabulary]."""
        return F.linear(x, self.head)


def _mask(start: int, new: int, padding: Tensor) -> Tensor:
    """Causal, and blind for fillers: [batch, 1, new, length].

    A filler sees itself, for a softmax over nothing is not defined.
    """
    length = start + new
    keys, queries = torch.arange(length), torch.arange(start, length)
    real = keys >= padding[:, None, None, None]
    itself = queries[:, None] == keys
    return causal_mask(new, length) & real | itself


def _require(config: Config, weights: Mapping[str, Tensor]) -> None:
    """LabError unless every weight is there with its shape."""
    for name, shape in config.shapes().items():
        if name not in weights:
            raise LabError(f"The weights lack {name}: fetch the model again.")
        if tuple(weights[name].shape) != shape:
            raise LabError(
                f"{name} has shape {tuple(weights[name].shape)}, not {shape}: "
                "config.json belongs to another model than the weights."
            )
