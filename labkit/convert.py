"""From a GGUF file to tensors, config and tokenizer of a Llama model.

llama.cpp stores the same weights under other names, in quantized blocks, and
with the rows of the query and key projections in another order. This module
undoes the three, so that the result loads like any other checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

GLOBAL_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3  # gguf.TokenType.CONTROL

Wrap = Callable[[Iterable[Any]], Iterable[Any]]


def tensor_name(gguf_name: str) -> str:
    """Name that transformers gives to a tensor; KeyError for a strange one."""
    if not gguf_name.startswith("blk."):
        return GLOBAL_NAMES[gguf_name]
    _, layer, part, kind = gguf_name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"


def half_split_rows(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo llama.cpp's order of rows in a query or key projection.

    Rotary embedding pairs channel i of a head with channel i + d/2 here, and
    2i with 2i + 1 in llama.cpp, whose converter moves the rows to match.
    Shapes: (heads * d, hidden) in and out.
    """
    rows, hidden = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, hidden)
    return pairs.swapaxes(1, 2).reshape(rows, hidden)


def build_tokenizer(
    tokens: list[str], token_types: list[int], merges: list[str]
) -> Tokenizer:
    """The byte-level BPE tokenizer of SmolLM2.

    Every digit is a piece of its own before the byte-level split; without
    that step the ids of numbers differ from the original's.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    pairs = [(left, right) for left, right in (m.split(" ") for m in merges)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, token_types, strict=True)
            if kind == CONTROL_TOKEN
        ]
    )
    return tokenizer


class GgufCheckpoint:
    """A Llama checkpoint in a GGUF file, read lazily.

    Raises ValueError when the file is no GGUF file or holds another
    architecture.
    """

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        self._reader = GGUFReader(path)
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise ValueError(f"architecture is {architecture!r}, not 'llama'")

    def field(self, name: str) -> Any:
        """One metadata value; ValueError when it is not there."""
        entry = self._reader.fields.get(name)
        if entry is None:
            raise ValueError(f"metadata field {name!r} is missing")
        return entry.contents()

    def config(self) -> dict[str, Any]:
        """What transformers expects in config.json."""
        hidden = self.field("llama.embedding_length")
        heads = self.field("llama.attention.head_count")
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "float32",
            "vocab_size": self.field("llama.vocab_size"),
            "hidden_size": hidden,
            "intermediate_size": self.field("llama.feed_forward_length"),
            "num_hidden_layers": self.field("llama.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.field("llama.attention.head_count_kv"),
            "head_dim": hidden // heads,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            # GGUF keeps it as a float32: 9.9999997e-06.
            "rms_norm_eps": float(
                f"{self.field('llama.attention.layer_norm_rms_epsilon'):.6g}"
            ),
            "rope_theta": self.field("llama.rope.freq_base"),
            "max_position_embeddings": self.field("llama.context_length"),
            "tie_word_embeddings": True,
            **self.token_ids(),
        }

    def token_ids(self) -> dict[str, int]:
        """Ids of the tokens that begin, end and pad a text."""
        return {
            f"{short}_token_id": self.field(f"tokenizer.ggml.{long}_token_id")
            for short, long in (
                ("bos", "bos"),
                ("eos", "eos"),
                ("pad", "padding"),
            )
        }

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, built from the vocabulary and the merges."""
        return build_tokenizer(
            self.field("tokenizer.ggml.tokens"),
            self.field("tokenizer.ggml.token_type"),
            self.field("tokenizer.ggml.merges"),
        )

    def tokenizer_config(self) -> dict[str, Any]:
        """What transformers expects in tokenizer_config.json."""
        tokens = self.field("tokenizer.ggml.tokens")
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self.field("llama.context_length"),
            "clean_up_tokenization_spaces": False,
            "chat_template": self.field("tokenizer.chat_template"),
            **{
                name.removesuffix("_id"): tokens[index]
                for name, index in self.token_ids().items()
            },
        }

    def state_dict(self, wrap: Wrap = iter) -> dict[str, np.ndarray]:
        """All tensors in FP32; `wrap` may show progress over them."""
        import numpy as np
        from gguf.quants import dequantize

        heads = {
            "attn_q": self.field("llama.attention.head_count"),
            "attn_k": self.field("llama.attention.head_count_kv"),
        }
        tensors = {}
        for tensor in wrap(self._reader.tensors):
            weight = dequantize(tensor.data, tensor.tensor_type)
            part = tensor.name.split(".")[-2]
            if part in heads:
                weight = half_split_rows(weight, heads[part])
            name = tensor_name(tensor.name)
            tensors[name] = np.ascontiguousarray(weight, dtype=np.float32)
        return tensors


def convert(gguf_path: Path, folder: Path, wrap: Wrap = iter) -> None:
    """Write config, tokenizer and FP32 safetensors of a GGUF into `folder`."""
    from safetensors.numpy import save_file

    source = GgufCheckpoint(gguf_path)
    documents = {
        "config.json": source.config(),
        "generation_config.json": source.token_ids(),
        "tokenizer_config.json": source.tokenizer_config(),
    }
    for name, document in documents.items():
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    source.tokenizer().save(str(folder / "tokenizer.json"))
    # The library writes {"format": "pt"} too, and asks for it when loading.
    save_file(
        source.state_dict(wrap),
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
