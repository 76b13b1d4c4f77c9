"""What a pass through a Llama-shaped model costs, from its sizes alone.

FLOPs count a multiplication and an addition as two. Norms, RoPE, softmax
and the MLP's product are left out: a percent or two of the rest.
"""

from __future__ import annotations

import math

from labkit.errors import LabError
from labkit.llama_config import Config


def parameters(config: Config) -> int:
    """How many weights the model has; tied embeddings count once."""
    return sum(math.prod(shape) for shape in config.shapes().values())


def weight_bytes(config: Config, bytes_per_value: float = 4) -> int:
    """Bytes of all weights.

    A decode step of a tied model reads all of them, the embedding as the
    output head; of an untied embedding it reads a single row.
    """
    return round(parameters(config) * bytes_per_value)


def layer_weights(config: Config) -> int:
    """Weights in the matrices of all layers, norms not among them."""
    query = config.query_heads * config.head_size
    kept = config.kv_heads * config.head_size
    attention = config.hidden * (2 * query + 2 * kept)
    return config.layers * (attention + 3 * config.hidden * config.mlp)


def linear_flops(config: Config, positions: int, logits: int = 1) -> int:
    """FLOPs of the matrices: two for each weight and position.

    The output head works on `logits` positions. Looking up an embedding
    costs none.
    """
    head = config.vocabulary * config.hidden
    return 2 * (layer_weights(config) * positions + head * logits)


def attention_flops(config: Config, new: int, length: int) -> int:
    """FLOPs of scores and mixed values, for the last `new` of `length`.

    A query at position p (from 1) meets p keys and as many values: 4 x
    query_heads x head_size x p in each layer. A kernel that computes the
    masked half as well does 4 x ... x new x length.
    """
    if not 0 < new <= length:
        raise LabError(f"{new} new positions cannot end at {length}.")
    pairs = sum(range(length - new + 1, length + 1))
    return 4 * config.layers * config.query_heads * config.head_size * pairs
