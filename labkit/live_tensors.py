"""Which tensors are alive, in bytes, while some code runs.

torch is loaded with this module; import it where it is used.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Counts the storage of every tensor that an operation returns::

        with LiveTensors() as live:
            logits = model(ids, cache)
        live.peak, live.now

    Tensors made before are not counted, nor is what a kernel takes for
    itself and gives back before it ends. It goes on counting what is freed
    after the block.
    """

    now: int
    """Bytes of those that are alive."""
    peak: int
    """The most that `now` ever was."""
    made: int
    """Bytes of all, alive or not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = self.made = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        for given in _storages((args, kwargs)):
            self._known.add(given)
        result = func(*args, **(kwargs or {}))
        for storage in _storages(result):
            if storage not in self._known:
                self._known.add(storage)
                self._count(storage.nbytes())
                weakref.finalize(storage, self._count, -storage.nbytes())
        return result

    def _count(self, nbytes: int) -> None:
        self.now += nbytes
        self.made += max(0, nbytes)
        self.peak = max(self.peak, self.now)


def _storages(tree: object) -> Iterator[torch.UntypedStorage]:
    """The memory behind every tensor in nested lists, tuples and dicts."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield leaf.untyped_storage()
