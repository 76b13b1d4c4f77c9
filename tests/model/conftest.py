"""Small random models, in both forms, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from labkit.llama import Llama


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Two workers with two threads each wait for one another on two cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def make_pair() -> Callable[..., tuple[Any, Llama]]:
    """Makes the library's two-layer Llama and ours on the same tensors."""
    from transformers import LlamaConfig, LlamaForCausalLM

    def make(**changes: Any) -> tuple[Any, Llama]:
        torch.manual_seed(0)
        sizes: dict[str, Any] = {
            "vocab_size": 97,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
            "initializer_range": 0.3,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 2,
        }
        model = LlamaForCausalLM(LlamaConfig(**(sizes | changes))).eval()
        return model, Llama.of(model)

    return make


@pytest.fixture(scope="session")
def pair(make_pair: Callable[..., tuple[Any, Llama]]) -> tuple[Any, Llama]:
    """The library's model and ours; treat them as read-only."""
    return make_pair()


@pytest.fixture(scope="session")
def tiny(pair: tuple[Any, Llama]) -> Llama:
    """Ours alone; treat it as read-only."""
    return pair[1]
