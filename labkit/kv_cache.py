"""The KV cache, and the arithmetic of its size.

For every layer and every position it holds one vector of keys and one of
values for each key/value head: what later positions will look at.

The caches need torch, which is loaded when one is made; the arithmetic
does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from labkit.errors import LabError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BITS = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int8": 8,
    "int4": 4,
}
"""Bits of one stored value; scales of quantized formats come on top."""


class Shape(Protocol):
    """What the size of a cache depends on; a `Config` has it."""

    @property
    def layers(self) -> int:
        """How many layers there are."""

    @property
    def query_heads(self) -> int:
        """Query heads in each layer."""

    @property
    def kv_heads(self) -> int:
        """Key/value heads in each layer."""

    @property
    def head_size(self) -> int:
        """Values of a head."""


class KVCache(Protocol):
    """Keys and values of one batch, for every layer.

    The layers get a pass's entries one after the other, the last one last,
    so `length` counts whole passes. What a pass that was interrupted left in
    the first layers is overwritten by the next.
    """

    @property
    def layers(self) -> int:
        """For how many layers it is."""

    @property
    def length(self) -> int:
        """How many positions every layer holds."""

    @property
    def capacity(self) -> int | None:
        """Most positions it can hold; None where it grows."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors behind it, used or not."""

    def append(
        self, layer: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep a layer's new keys and values; return all that it holds.

        Each is [batch, kv_heads, positions, head_size]. LabError for another
        batch, model or format than it is for.
        """

    def view(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values that a layer holds, not copied."""

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on; LabError if there are
        fewer."""

    def reset(self) -> None:
        """Forget everything, for another prompt."""


class GrowingCache:
    """Grows by concatenation: each token copies all that there was."""

    capacity = None

    def __init__(self, config: Shape) -> None:
        self.layers = config.layers
        self._kept: list[tuple[Tensor, Tensor] | None]
        self._kept = [None] * config.layers

    @property
    def length(self) -> int:
        """How many positions every layer holds."""
        last = self._kept[-1]
        return 0 if last is None else last[0].shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors: those of `length` positions."""
        return sum(t.nbytes for kept in self._kept if kept for t in kept)

    def append(
        self, layer: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep a layer's new keys and values; return all that it holds."""
        import torch

        kept, held = self._kept[layer], self.length
        if kept is None:
            # Copies: the given ones may be parts of something larger.
            self._kept[layer] = (keys.clone(), values.clone())
            return self.view(layer)
        _require_alike(keys, kept[0])
        self._kept[layer] = (
            torch.cat((kept[0][:, :, :held], keys), dim=2),
            torch.cat((kept[1][:, :, :held], values), dim=2),
        )
        return self.view(layer)

    def view(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values that a layer holds; LabError while it is empty."""
        kept = self._kept[layer]
        if kept is None:
            raise LabError("This cache is empty: run a prompt first.")
        return kept

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on, and free their memory."""
        _require_held(length, self.length)
        if length == 0:
            self.reset()
            return
        self._kept = [
            kept
            and (
                kept[0][:, :, :length].clone(),
                kept[1][:, :, :length].clone(),
            )
            for kept in self._kept
        ]

    def reset(self) -> None:
        """Forget everything."""
        self._kept = [None] * len(self._kept)


class PreallocatedCache:
    """Takes its memory once, for `capacity` positions, and fills it.

    What a system gives is not touched before it is written, so an empty
    cache hardly takes memory yet.
    """

    def __init__(
        self,
        config: Shape,
        capacity: int,
        batch: int = 1,
        dtype: torch.dtype | None = None,
    ) -> None:
        import torch

        if capacity < 1 or batch < 1:
            raise LabError("Give a cache room for at least one position.")
        shape = (2, config.layers, batch, config.kv_heads, capacity)
        self.layers, self.capacity = config.layers, capacity
        self._store = torch.empty(
            *shape, config.head_size, dtype=dtype or torch.float32
        )
        self._keys = self._store[0].unbind()
        self._values = self._store[1].unbind()
        self._held = [0] * config.layers

    @property
    def length(self) -> int:
        """How many positions every layer holds."""
        return self._held[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of the one allocation: those of `capacity` positions."""
        return self._store.nbytes

    def append(
        self, layer: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep a layer's new keys and values; return all that it holds.

        LabError when they do not fit.
        """
        _require_alike(keys, self._keys[layer])
        require_capacity(self, keys.shape[2])
        start = self.length
        end = start + keys.shape[2]
        self._keys[layer][:, :, start:end] = keys
        self._values[layer][:, :, start:end] = values
        self._held[layer] = end
        return self.view(layer)

    def view(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values that a layer holds, not copied."""
        held = self._held[layer]
        return self._keys[layer][:, :, :held], self._values[layer][:, :, :held]

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on; the memory stays."""
        _require_held(length, self.length)
        self._held = [length] * len(self._held)

    def reset(self) -> None:
        """Forget everything; the memory stays."""
        self.truncate(0)


def require_capacity(cache: KVCache, new: int) -> None:
    """LabError if `new` positions do not fit behind what a cache holds."""
    end = cache.length + new
    if cache.capacity is not None and end > cache.capacity:
        raise LabError(
            f"{end} positions do not fit a cache made for {cache.capacity}: "
            "make a larger one, or reset it before another prompt."
        )


def _require_alike(keys: Tensor, kept: Tensor) -> None:
    """LabError unless both are of one batch, model and format."""
    (batch, heads, _, size), room = keys.shape, kept.shape
    same = (batch, heads, size) == (room[0], room[1], room[3])
    if not same or keys.dtype != kept.dtype:
        raise LabError(
            f"This cache is for {room[0]} sequences with {room[1]} key/value "
            f"heads of {room[3]} values in {kept.dtype}, and got {batch} with "
            f"{heads} of {size} in {keys.dtype}: make one for this model and "
            "batch."
        )


def _require_held(length: int, held: int) -> None:
    if not 0 <= length <= held:
        raise LabError(
            f"A cache that holds {held} positions cannot be cut to {length}: "
            f"give a number from 0 to {held}."
        )


def kind(config: Shape) -> str:
    """MHA: a key/value head for each query head; MQA: one for all; GQA."""
    if config.kv_heads == config.query_heads:
        return "MHA"
    return "MQA" if config.kv_heads == 1 else "GQA"


def bytes_per_token(config: Shape, dtype: str = "float32") -> int:
    """Bytes that one position takes in all layers.

    2 (keys and values) x layers x kv_heads x head_size x bytes of a value.
    `dtype` is one of `BITS`; LabError for another.
    """
    if dtype not in BITS:
        known = ", ".join(BITS)
        raise LabError(f"{dtype!r} is no known format: choose one of {known}.")
    values = 2 * config.layers * config.kv_heads * config.head_size
    return values * BITS[dtype] // 8


def bytes_per_sequence(
    config: Shape, length: int, dtype: str = "float32"
) -> int:
    """Bytes of one conversation of `length` tokens."""
    return length * bytes_per_token(config, dtype)


def bytes_per_batch(
    config: Shape, lengths: Iterable[int], dtype: str = "float32"
) -> int:
    """Bytes of several conversations, each of its own length in tokens."""
    return sum(bytes_per_sequence(config, n, dtype) for n in lengths)
