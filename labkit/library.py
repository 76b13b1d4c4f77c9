"""The transformers library's model behind the course's interface.

This is the only place that touches the library's cache classes. Both parts
load torch and transformers when they are used, not with this module.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labkit.generation import (
    Clock,
    Generation,
    require_ids,
    require_room,
)
from labkit.llama_config import Config

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers.cache_utils import Cache, DynamicLayer

    from labkit.kv_cache import KVCache


def generate(
    model: Any,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    clock: Clock = time.perf_counter_ns,
) -> Generation:
    """The library's own `generate`: greedy, exactly that many tokens.

    The end token is never chosen, so that every run does the same work. The
    tokens come all at once, so none has a time of its own. Raises LabError
    when nothing is asked, or more than the context holds.
    """
    import torch

    context = model.config.max_position_embeddings
    require_room(context, 0, prompt_ids, max_new_tokens)
    require_ids(prompt_ids, model.config.vocab_size)
    prompt = torch.tensor([list(prompt_ids)])
    mask = torch.ones_like(prompt)
    with torch.inference_mode():
        start = clock()
        output = model.generate(
            prompt,
            attention_mask=mask,
            do_sample=False,
            use_cache=True,
            min_new_tokens=max_new_tokens,
            max_new_tokens=max_new_tokens,
        )
        end = clock()
    new = tuple(output[0, len(prompt_ids) :].tolist())
    return Generation(new, len(prompt_ids), start, end)


class LibraryModel:
    """A transformers Llama that fills the course's caches.

    Works wherever `labkit.llama.Llama` does: `prefill`, `decode`, `stream`.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = Config.from_dict(
            json.loads(model.config.to_json_string())
        )

    @property
    def dtype(self) -> torch.dtype:
        """The format that it computes in."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    def __call__(
        self, ids: Tensor, cache: KVCache, *, last_only: bool = False
    ) -> Tensor:
        """Logits after each of [batch, new] ids, or after the last.

        LabError when they do not fit the context after what `cache` holds.
        """
        from labkit.llama import first_position

        first_position(self.config, cache, ids.shape[1])
        output = self.model(
            ids,
            cache=_bridge(cache, self.config.layers),
            use_cache=True,
            logits_to_keep=1 if last_only else 0,
        )
        logits: Tensor = output.logits
        return logits


def _bridge(cache: KVCache, layers: int) -> Cache:
    """A library cache whose layers pass everything on to one of ours."""
    from transformers.cache_utils import Cache

    layer = _layer_class()
    return Cache(layers=[layer(cache, index) for index in range(layers)])


@functools.cache
def _layer_class() -> Callable[[KVCache, int], DynamicLayer]:
    """Made once: a class takes longer to make than a call."""
    from transformers.cache_utils import DynamicLayer

    class Layer(DynamicLayer):
        def __init__(self, cache: KVCache, index: int) -> None:
            super().__init__()
            self.cache, self.index = cache, index

        def update(
            self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
        ) -> tuple[Tensor, Tensor]:
            return self.cache.append(self.index, key_states, value_states)

        def get_seq_length(self) -> int:
            return self.cache.length

    return Layer
