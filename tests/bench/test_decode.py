"""The plan of the decode bench, and its talk with a contender."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from labkit.errors import LabError


def test_prompts_of_a_batch_differ_and_begin_alike(decode: Any) -> None:
    prompts = decode.prompts_of(range(500))
    assert len(prompts) == 16
    assert {len(ids) for ids in prompts} == {128}
    assert prompts[0] == list(range(128))
    assert len({tuple(ids) for ids in prompts}) == 16


def test_a_passage_that_is_too_short_is_refused(decode: Any) -> None:
    decode.prompts_of(range(128 + 15 * 7))
    with pytest.raises(LabError, match="needed"):
        decode.prompts_of(range(128 + 15 * 7 - 1))


def test_every_contender_continues_the_same_prompt(decode: Any) -> None:
    plan = decode.conditions(decode.prompts_of(range(500)))
    requests = [c.request for c in plan if c.request["work"] == "generate"]
    assert {tuple(r["prompts"][0]) for r in requests} == {tuple(range(128))}
    sizes = [len(r["prompts"]) for r in requests]
    assert sorted(sizes) == [1, 1, 1, 1, 4, 4, 8, 8, 16, 16]
    names = [c.name for c in plan]
    assert len(set(names)) == len(names)


def test_other_tokens_are_noticed(decode: Any) -> None:
    before, after = {"ids": [[1, 2]], "x": 1}, {"ids": [[1, 3]], "x": 1}
    assert decode.same_ids("a", before, {**before, "x": 2})
    assert not decode.same_ids("a", before, after)
    assert decode.without_ids(before) == {"x": 1}


def test_the_cache_is_averaged_over_the_steps(decode: Any) -> None:
    """63 steps read 129 to 191 positions."""
    from labkit import kv_cache
    from labkit.llama_config import Config

    config = Config(2, 4, 2, 8, 32, 64, 97, 64, 1e4, 1e-5, True)
    lengths = range(129, 192)
    each = kv_cache.bytes_per_token(config, "float32")
    assert len(lengths) == decode.NEW_TOKENS - 1
    assert decode.mean_cache_bytes(config, "float32") == pytest.approx(
        each * sum(lengths) / len(lengths)
    )


def test_a_contender_answers_line_by_line(
    bench: Callable[[str], Any],
) -> None:
    contenders, out = bench("contenders"), io.StringIO()
    works = {"double": lambda request: {"is": 2 * request["x"]}}
    lines = [json.dumps({"work": "double", "x": x}) + "\n" for x in (1, 4)]
    contenders.answer_all(works, lines, out)
    assert out.getvalue() == '{"is": 2}\n{"is": 8}\n'


def test_an_unknown_contender_is_refused(bench: Callable[[str], Any]) -> None:
    with pytest.raises(LabError, match="no contender 'x'"):
        bench("contenders").works_of("x", 1)


def test_llama_cpp_timings(bench: Callable[[str], Any]) -> None:
    timings = {"prompt_n": 3, "prompt_ms": 7.5, "predicted_ms": 40.0}
    answer = {"tokens": [5, 6], "timings": timings}
    made = bench("llama_cpp").timed(answer)
    assert made.ids == (5, 6)
    assert (made.prompt_tokens, made.prompt_ms) == (3, 7.5)
    assert made.predicted_ms == 40.0


@pytest.mark.parametrize("answer", [{}, {"timings": {}, "tokens": []}, []])
def test_another_answer_is_refused(
    bench: Callable[[str], Any], answer: Any
) -> None:
    with pytest.raises(LabError, match="xllamacpp"):
        bench("llama_cpp").timed(answer)


def test_f32_gguf_keeps_names_order_and_values(
    bench: Callable[[str], Any], tmp_path: Any
) -> None:
    """Only the number format changes; q and k rows are not moved."""
    from gguf import GGMLQuantizationType as Kind
    from gguf import GGUFReader, GGUFWriter
    from gguf.quants import dequantize, quantize

    source, target = tmp_path / "small.gguf", tmp_path / "large.gguf"
    weight = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    packed = quantize(weight, Kind.Q8_0)
    writer = GGUFWriter(source, "llama")
    writer.add_uint32("llama.block_count", 1)
    writer.add_file_type(7)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("blk.0.attn_q.weight", packed, raw_dtype=Kind.Q8_0)
    writer.add_tensor("output_norm.weight", weight[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    bench("llama_cpp").write_f32(source, target)
    reader = GGUFReader(target)
    kinds = {tensor.tensor_type for tensor in reader.tensors}
    made = {tensor.name: tensor.data for tensor in reader.tensors}
    assert kinds == {Kind.F32}
    assert list(made) == ["blk.0.attn_q.weight", "output_norm.weight"]
    wanted = dequantize(packed, Kind.Q8_0)
    assert np.array_equal(made["blk.0.attn_q.weight"], wanted)
    fields = {n: f.contents() for n, f in reader.fields.items()}
    assert fields["llama.block_count"] == 1
    assert fields["general.architecture"] == "llama"
    assert fields["general.file_type"] == 0
    assert fields["tokenizer.ggml.tokens"] == ["a", "b"]
