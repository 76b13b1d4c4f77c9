"""Our Llama against the library's, on small random models and its rules."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from labkit import llama
from labkit.errors import LabError
from labkit.fused import fuse
from labkit.kv_cache import PreallocatedCache
from labkit.llama import Llama
from labkit.llama_config import Config

MakePair = Callable[..., tuple[Any, Llama]]
IDS = [5, 9, 11, 3, 40, 41, 9, 60, 2, 7, 7, 96]
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def logits_of(model: Any, ids: list[int] = IDS) -> torch.Tensor:
    with torch.inference_mode():
        made = model(torch.tensor([ids]))
    result: torch.Tensor = getattr(made, "logits", made)
    return result


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) < 5e-4


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {"tie_word_embeddings": True},
        {"head_dim": 16},
        {"rope_parameters": LLAMA3},
        {"rms_norm_eps": 0.1},
        {"num_hidden_layers": 5, "intermediate_size": 48},
    ],
    ids=str,
)
def test_logits_equal_the_librarys(
    make_pair: MakePair, changes: dict[str, Any]
) -> None:
    library, ours = make_pair(**changes)
    assert_close(logits_of(ours), logits_of(library))


@pytest.mark.parametrize("scaling", [None, LLAMA3])
@pytest.mark.parametrize("base", [10_000.0, 100_000.0])
def test_inverse_frequencies_are_exactly_the_librarys(
    make_pair: MakePair, scaling: dict[str, Any] | None, base: float
) -> None:
    rope = (scaling or {"rope_type": "default"}) | {"rope_theta": base}
    library, ours = make_pair(rope_parameters=rope, head_dim=64)
    expected = library.model.rotary_emb.inv_freq
    assert torch.equal(ours.frequencies, expected)


def test_the_tensors_are_shared_not_copied(pair: tuple[Any, Llama]) -> None:
    library, ours = pair
    theirs = library.model.layers[1].mlp.up_proj.weight
    assert ours.layers[1].up.data_ptr() == theirs.data_ptr()


def test_naive_attention_gives_the_same(pair: tuple[Any, Llama]) -> None:
    library, fused = pair
    naive = Llama.of(library, attention=llama.naive_attention)
    assert_close(logits_of(naive), logits_of(fused))


def test_rows_of_attention_weights_sum_to_one_and_never_look_ahead() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 7, 8)
    weights = llama.attention_weights(q, k)
    assert weights.shape == (1, 4, 3, 7)
    assert torch.allclose(weights.sum(-1), torch.ones(1, 4, 3))
    assert not weights[0, :, 0, 5:].any()
    assert weights[0, :, 0, 4].all()


def test_fewer_queries_than_keys_are_aligned_bottom_right() -> None:
    mask = llama.causal_mask(2, 5)
    assert mask.tolist() == [
        [True, True, True, True, False],
        [True, True, True, True, True],
    ]


@pytest.mark.parametrize("new", [1, 2, 3])
def test_both_kernels_agree_on_new_queries(new: int) -> None:
    torch.manual_seed(0)
    q = torch.randn(2, 4, new, 8)
    k, v = torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    fused = llama.fused_attention(q, k, v)
    assert_close(fused, llama.naive_attention(q, k, v))


@pytest.mark.parametrize("chunks", [[1] * 12, [5, 7], [1, 11], [11, 1],
                                    [4, 4, 4], [12]], ids=str)  # fmt: skip
@pytest.mark.parametrize("attention", ["fused", "naive"])
def test_a_prompt_in_chunks_gives_the_same_logits(
    pair: tuple[Any, Llama], chunks: list[int], attention: str
) -> None:
    library, _ = pair
    kernel = getattr(llama, f"{attention}_attention")
    ours = Llama.of(library, attention=kernel)
    cache = PreallocatedCache(ours.config, len(IDS))
    parts = torch.tensor([IDS]).split(chunks, dim=1)
    with torch.inference_mode():
        made = torch.cat([ours(part, cache) for part in parts], dim=1)
    assert_close(made, logits_of(library))


def test_last_only_is_the_last_row(tiny: Llama) -> None:
    with torch.inference_mode():
        last = tiny(torch.tensor([IDS]), last_only=True)
    assert last.shape == (1, 1, 97)
    assert_close(last[:, 0], logits_of(tiny)[:, -1])


def padded(texts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, texts))
    padding = torch.tensor([longest - len(text) for text in texts])
    rows = [[2] * (longest - len(text)) + text for text in texts]
    return torch.tensor(rows), padding


@pytest.mark.parametrize("attention", ["fused", "naive"])
def test_left_padding_changes_nothing(
    pair: tuple[Any, Llama], attention: str
) -> None:
    kernel = getattr(llama, f"{attention}_attention")
    ours = Llama.of(pair[0], attention=kernel)
    texts = [IDS, IDS[3:8], [9]]
    ids, padding = padded(texts)
    cache = PreallocatedCache(ours.config, 20, batch=3)
    following = torch.tensor([[4, 6], [8, 1], [3, 3]])
    with torch.inference_mode():
        first = ours(ids, cache, padding=padding)
        second = ours(following, cache, padding=padding)
    for row, text in enumerate(texts):
        whole = logits_of(ours, text + following[row].tolist())[0]
        assert_close(first[row, -len(text) :], whole[:-2])
        assert_close(second[row], whole[-2:])


def test_a_batch_without_padding(tiny: Llama) -> None:
    ids = torch.tensor([IDS, IDS[::-1]])
    with torch.inference_mode():
        made = tiny(ids)
    assert_close(made[1:], logits_of(tiny, IDS[::-1]))


def test_fused_layers_give_the_same(make_pair: MakePair) -> None:
    _, ours = make_pair()
    expected = logits_of(ours)
    fused = fuse(ours)
    assert_close(logits_of(fused), expected)
    cache = PreallocatedCache(fused.config, len(IDS))
    with torch.inference_mode():
        steps = [fused(torch.tensor([[i]]), cache) for i in IDS]
    assert_close(torch.cat(steps, dim=1), expected)


def test_fused_matrices_are_one_copy(make_pair: MakePair) -> None:
    layer = fuse(make_pair()[1]).layers[0]
    joined = layer.qkv  # type: ignore[attr-defined]  # of FusedLayer
    assert layer.q.data_ptr() == joined.data_ptr()
    assert layer.k.untyped_storage().data_ptr() == joined.data_ptr()


@pytest.mark.parametrize("tied", [True, False])
def test_fused_weights_let_go_of_the_file(
    make_pair: MakePair, tmp_path: Path, tied: bool
) -> None:
    library, ours = make_pair(tie_word_embeddings=tied)
    expected = logits_of(ours)
    save(library, tmp_path)
    fused = fuse(Llama.load(tmp_path))
    assert (fused.head is fused.embedding) == tied
    assert_close(logits_of(fused), expected)
    if sys.platform == "linux":
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
        assert str(tmp_path) not in maps


def test_bfloat16_stays_bfloat16(make_pair: MakePair) -> None:
    library, _ = make_pair()
    ours = Llama.of(library.to(torch.bfloat16))
    assert ours.dtype == torch.bfloat16
    made = logits_of(ours)
    assert made.dtype == torch.bfloat16
    assert (made - logits_of(library)).abs().max() < 0.2


def test_past_the_context_is_refused(tiny: Llama) -> None:
    with pytest.raises(LabError, match="65 tokens do not fit a context"):
        tiny(torch.tensor([[5] * 65]))
    cache = PreallocatedCache(tiny.config, 70)
    with torch.inference_mode():
        tiny(torch.tensor([[5] * 64]), cache)
    with pytest.raises(LabError, match="65 tokens do not fit"):
        tiny(torch.tensor([[5]]), cache)


def save(library: Any, folder: Path) -> None:
    """As a checkpoint's folder is; a tied head is left out, as usual."""
    library.config.save_pretrained(folder)
    weights = dict(library.state_dict())
    if library.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors")


def test_loads_a_saved_folder(pair: tuple[Any, Llama], tmp_path: Path) -> None:
    library, ours = pair
    save(library, tmp_path)
    loaded = Llama.load(tmp_path)
    assert loaded.config == ours.config
    assert torch.equal(logits_of(loaded), logits_of(ours))


def test_missing_and_misshapen_weights_are_named(
    pair: tuple[Any, Llama],
) -> None:
    library, ours = pair
    weights = dict(library.state_dict())
    name = "model.layers.1.mlp.up_proj.weight"
    wrong = weights | {name: weights[name][:, :5]}
    with pytest.raises(LabError, match=r"layers\.1\.mlp\.up_proj.*\(64, 5\)"):
        Llama(ours.config, wrong)
    del weights[name]
    with pytest.raises(LabError, match=r"lack model\.layers\.1\.mlp\.up"):
        Llama(ours.config, weights)


def config_of(library: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(library.config.to_json_string())
    return document


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "mistral"}, "model_type = 'mistral'"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "'yarn'"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "'linear'"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"hidden_size": "32"}, "hidden_size"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"num_key_value_heads": 3}, "cannot share 3"),
        ({"head_dim": 7}, "of 7 values"),
        ({"num_attention_heads": True}, "num_attention_heads"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"rms_norm_eps": -5}, "rms_norm_eps"),
        ({"rope_parameters": {"rope_theta": 0}}, "rope_theta"),
        ({"rope_parameters": "yarn"}, "rope_parameters"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings"),
    ],
    ids=str,
)
def test_what_is_not_computed_is_refused(
    pair: tuple[Any, Llama], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(LabError, match=words):
        Config.from_dict(copy.deepcopy(config_of(pair[0])) | changes)


def test_config_of_transformers_4_is_read_too(pair: tuple[Any, Llama]) -> None:
    document = config_of(pair[0])
    document.pop("rope_parameters")
    document |= {"rope_theta": 500_000.0, "rope_scaling": dict(LLAMA3)}
    del document["rope_scaling"]["rope_theta"]
    del document["head_dim"]
    config = Config.from_dict(document)
    assert config.rope_base == 500_000.0
    assert config.head_size == 8
    assert config.rope_scaling is not None
    assert config.rope_scaling.original_context == 32


@pytest.mark.parametrize("text", ["{", "[]", "null", "[" * 9999, "\udcff"])
def test_a_broken_config_file_is_refused(tmp_path: Path, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(LabError, match="fetch the model again"):
        Config.read(tmp_path)
