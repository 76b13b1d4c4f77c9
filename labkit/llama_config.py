"""The numbers that make a Llama-shaped model, read from its config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import documents
from labkit.errors import LabError

LAYER = (
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
"""The weights of one layer, in the order in which they are used."""


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 stretches RoPE over a longer context than it began with.

    `original_context` is in tokens; the others are factors of it.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class Config:
    """Sizes of a Llama-shaped model.

    `hidden` is the length of a token's vector, `mlp` that of the vector
    inside the MLP; each of `layers` has `query_heads` and `kv_heads` of
    `head_size` values. `context` and `vocabulary` are in tokens. With
    `tied` the embedding is the output head as well.
    """

    layers: int
    query_heads: int
    kv_heads: int
    head_size: int
    hidden: int
    mlp: int
    vocabulary: int
    context: int
    rope_base: float
    norm_eps: float
    tied: bool
    rope_scaling: RopeScaling | None = None

    @classmethod
    def read(cls, folder: Path) -> Config:
        """From a model's folder; LabError when it is not of this kind."""
        path = folder / "config.json"
        try:
            text = path.read_text(encoding="utf-8")
            document = documents.parse(text)
        except (OSError, UnicodeDecodeError, LabError) as error:
            raise LabError(
                f"{path} cannot be read ({error}): fetch the model again."
            ) from error
        return cls.from_dict(document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Config:
        """From a parsed config.json, as transformers 4 or 5 write it.

        LabError names what `labkit.llama` does not compute.
        """
        _refuse_other_kinds(document)
        heads = _count(document, "num_attention_heads")
        hidden = _count(document, "hidden_size")
        rope = _rope(document)
        made = cls(
            layers=_count(document, "num_hidden_layers"),
            query_heads=heads,
            kv_heads=_count(document, "num_key_value_heads", heads),
            head_size=_count(document, "head_dim", hidden // heads),
            hidden=hidden,
            mlp=_count(document, "intermediate_size"),
            vocabulary=_count(document, "vocab_size"),
            context=_count(document, "max_position_embeddings"),
            rope_base=_number(rope, "rope_theta", 10_000.0),
            norm_eps=_number(document, "rms_norm_eps", 1e-6),
            tied=_truth(document, "tie_word_embeddings", False),
            rope_scaling=_scaling(rope),
        )
        if made.query_heads % made.kv_heads or made.head_size % 2:
            raise LabError(
                f"{made.query_heads} query heads of {made.head_size} values "
                f"cannot share {made.kv_heads} key/value heads: this is no "
                "config of a Llama-shaped model."
            )
        return made

    @staticmethod
    def layer_names(index: int) -> list[str]:
        """Names in the file of one layer's weights, in order of use."""
        return [f"model.layers.{index}.{name}.weight" for name in LAYER]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name in the file and shape, [out, in], of every weight."""
        query = self.query_heads * self.head_size
        kept = self.kv_heads * self.head_size
        layer = (
            (self.hidden,),
            (query, self.hidden),
            (kept, self.hidden),
            (kept, self.hidden),
            (self.hidden, query),
            (self.hidden,),
            (self.mlp, self.hidden),
            (self.mlp, self.hidden),
            (self.hidden, self.mlp),
        )
        shapes: dict[str, tuple[int, ...]] = {}
        shapes["model.embed_tokens.weight"] = (self.vocabulary, self.hidden)
        for index in range(self.layers):
            names = self.layer_names(index)
            shapes.update(zip(names, layer, strict=True))
        shapes["model.norm.weight"] = (self.hidden,)
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocabulary, self.hidden)
        return shapes


def _refuse_other_kinds(document: Mapping[str, Any]) -> None:
    """LabError for a model that would be computed wrongly."""
    plain = {
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
    }
    for key, wanted in plain.items():
        found = document.get(key, wanted)
        if found != wanted:
            raise LabError(
                f"config.json says {key} = {found!r}: labkit.llama computes "
                f"{wanted!r} alone; use the transformers library for it."
            )
    if document.get("quantization_config") is not None:
        raise LabError(
            "config.json describes quantized weights: labkit.llama reads "
            "floating-point ones; use a checkpoint that is not quantized."
        )


def _rope(document: Mapping[str, Any]) -> dict[str, Any]:
    """Base and scaling, wherever this version of the file has them."""
    rope: dict[str, Any] = {}
    if "rope_theta" in document:
        rope["rope_theta"] = document["rope_theta"]
    for key in ("rope_parameters", "rope_scaling"):
        given = document.get(key) or {}
        if not isinstance(given, Mapping):
            raise LabError(f"config.json has no object as {key}.")
        part = dict(given)
        if "type" in part:
            part.setdefault("rope_type", part.pop("type"))
        rope |= part
    return rope


def _scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", "default")
    if kind == "default":
        return None
    if kind != "llama3":
        raise LabError(
            f"config.json scales RoPE by {kind!r}: labkit.llama knows the "
            "plain and the llama3 kind; use the transformers library for it."
        )
    return RopeScaling(
        factor=_number(rope, "factor"),
        low_freq_factor=_number(rope, "low_freq_factor"),
        high_freq_factor=_number(rope, "high_freq_factor"),
        original_context=_count(rope, "original_max_position_embeddings"),
    )


def _truth(document: Mapping[str, Any], key: str, default: bool) -> bool:
    value = document.get(key, default)
    if not isinstance(value, bool):
        raise LabError(f"config.json has neither true nor false as {key}.")
    return value


def _count(
    document: Mapping[str, Any], key: str, default: int | None = None
) -> int:
    value = document.get(key)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise LabError(
            f"config.json has no whole number above 0 as {key}: it is not "
            "the config of a Llama-shaped model."
        )
    return value


def _number(
    document: Mapping[str, Any], key: str, default: float | None = None
) -> float:
    value = document.get(key, default)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise LabError(
            f"config.json has no number above 0 as {key}: it is not the "
            "config of a Llama-shaped model."
        )
    return float(value)
