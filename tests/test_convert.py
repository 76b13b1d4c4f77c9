"""The conversion against transformers' own reading of the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit import checkpoints
from labkit.convert import GgufCheckpoint, half_split_rows, tensor_name


def test_half_split_rows_by_hand() -> None:
    # One head of four channels: llama.cpp keeps the pairs (0, 2) and (1, 3)
    # side by side.
    stored = np.array([[0], [2], [1], [3]])
    assert half_split_rows(stored, 1).ravel().tolist() == [0, 1, 2, 3]


def test_half_split_rows_keeps_heads_apart() -> None:
    stored = np.arange(8)[:, None]
    rows = half_split_rows(stored, 2).ravel().tolist()
    assert rows == [0, 2, 1, 3, 4, 6, 5, 7]


def test_unknown_tensor_is_refused() -> None:
    with pytest.raises(KeyError):
        tensor_name("blk.0.attn_bias.weight")


def test_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"not a model" * 100)
    with pytest.raises(ValueError, match="GGUF"):
        GgufCheckpoint(path)


@pytest.mark.model
def test_config_is_the_published_architecture(model_home: Path) -> None:
    folder = checkpoints.find(checkpoints.DEFAULT).folder(model_home)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["num_hidden_layers"] == 30
    assert config["num_attention_heads"] == 9
    assert config["num_key_value_heads"] == 3
    assert config["head_dim"] == 64
    assert config["intermediate_size"] == 1536
    assert config["rope_theta"] == 100_000
    assert config["rms_norm_eps"] == 1e-5
    assert config["tie_word_embeddings"] is True


@pytest.mark.model
def test_quantized_tensors_lie_on_a_grid_of_sixteen(
    text_model: Any,
) -> None:
    # Q4_1 gives each block of 32 neighbours sixteen values. Rows of value
    # projections are not moved, so their blocks are still whole.
    weight = text_model.model.model.layers[0].self_attn.v_proj.weight
    blocks = weight.detach().reshape(-1, 32).numpy()
    assert max(len(np.unique(block)) for block in blocks) <= 16


@pytest.mark.model
def test_chat_template_is_kept(model_home: Path) -> None:
    folder = checkpoints.find(checkpoints.DEFAULT).folder(model_home)
    text = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
    assert "<|im_start|>" in json.loads(text)["chat_template"]
