"""The plan of the decode bench, and its talk with a contender."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from labkit import store
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


@pytest.fixture
def start(decode: Any) -> Iterator[Callable[..., Any]]:
    """Starts a worker whose process runs the given Python source."""
    with contextlib.ExitStack() as stack:

        def make(
            source: str, variables: Mapping[str, str] = os.environ
        ) -> Any:
            log = stack.enter_context(tempfile.TemporaryFile())
            command = [sys.executable, "-c", source]
            worker = decode.Worker("child", command, variables, log)
            stack.callback(worker.close)
            return worker

        yield make


READY = "import os, sys, json; print('{}', flush=True)\n"


def wait_until_stopped(child: psutil.Process) -> None:
    """A signal takes a moment to arrive."""
    for _ in range(500):
        if child.status() == psutil.STATUS_STOPPED:
            return
        time.sleep(0.01)
    pytest.fail("it still runs")


def test_a_worker_answers_and_is_suspended_in_between(
    start: Callable[..., Any],
) -> None:
    worker = start(
        f"{READY}for line in sys.stdin: print(line, end='', flush=True)"
    )
    for number in (1, 2):
        assert worker.ask({"x": number}) == {"x": number}
        wait_until_stopped(psutil.Process(worker.pid))
    worker.close()
    assert not psutil.pid_exists(worker.pid)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no JSON", "answered 'no JSON', and it is not JSON"),
        ("[]", "answered '[]', and it is not a JSON object"),
        ("7", "answered '7', and it is not a JSON object"),
        ('{"x": NaN}', "NaN is not a finite number"),
        ('{"error": "no model"}', "child stopped: no model"),
    ],
)
def test_a_start_that_fails_leaves_no_process(
    start: Callable[..., Any], tmp_path: Path, line: str, reason: str
) -> None:
    note = tmp_path / "pid"
    source = (
        f"import os, pathlib; pathlib.Path({str(note)!r}).write_text("
        f"str(os.getpid())); print({line!r}, flush=True); input()"
    )
    with pytest.raises(LabError, match=re.escape(reason)):
        start(source)
    assert not psutil.pid_exists(int(note.read_text(encoding="utf-8")))


def test_one_that_no_longer_listens_has_last_words(
    start: Callable[..., Any],
) -> None:
    """Nothing reads its pipe: what is written to it is an error."""
    worker = start(
        "import os, sys; os.close(0); print('{}', flush=True)\n"
        "print('first', 'out of memory', sep='\\n', file=sys.stderr)"
    )
    with pytest.raises(LabError, match="child stopped: out of memory"):
        worker.ask({})


def test_a_killed_worker_is_an_error(start: Callable[..., Any]) -> None:
    worker = start(f"{READY}input()")
    child = psutil.Process(worker.pid)
    child.kill()
    child.wait()
    with pytest.raises(LabError, match="child stopped: it gave no reason"):
        worker.ask({})


def test_workers_have_the_recorded_settings_alone(
    decode: Any, start: Callable[..., Any]
) -> None:
    """What was set for something else does not reach a contender."""
    inherited = {
        **os.environ,
        "OMP_PROC_BIND": "true",
        "GOMP_SPINCOUNT": "1000",
        "KMP_BLOCKTIME": "0",
        "MKL_NUM_THREADS": "7",
        "OMP_NUM_THREADS": "9",
        "LABKIT_NOTE": "kept",
    }
    chosen = decode.settings(2)
    worker = start(
        f"{READY}input(); print(json.dumps(dict(os.environ)))",
        decode.environment(inherited, chosen),
    )
    found = worker.ask({})
    threading = {
        name: value
        for name, value in found.items()
        if name.startswith(("OMP_", "GOMP_", "KMP_", "MKL_"))
    }
    assert threading == chosen
    assert threading["OMP_NUM_THREADS"] == "2"
    assert found["LABKIT_NOTE"] == "kept"


@pytest.mark.parametrize(("rows", "last"), [(1, 1), (8, 8), (128, 1)])
def test_matrices_alone_reads_each_matrix_once(
    bench: Callable[[str], Any], rows: int, last: int
) -> None:
    import torch

    from labkit.fused import fuse
    from labkit.llama import Llama
    from labkit.llama_config import Config

    config = Config(2, 4, 2, 8, 32, 64, 97, 64, 1e4, 1e-5, True)
    weights = {n: torch.ones(*s) for n, s in config.shapes().items()}
    model = fuse(Llama(config, weights))
    calls: list[tuple[int, int, int]] = []

    def product(x: Any, weight: Any) -> None:
        assert x.shape[1] == weight.shape[1]
        calls.append((x.shape[0], *weight.shape))

    made = bench("contenders").matrices_alone(model, rows, product)
    layer = [
        (rows, 64, 32),
        (rows, 32, 32),
        (rows, 128, 32),
        (rows, 32, 64),
    ]
    one_pass = [*layer, *layer, (last, 97, 32)]
    assert calls == one_pass * bench("contenders").PASSES
    read = made["bytes_per_s"] * made["pass_s"]
    assert read == pytest.approx(4 * sum(out * n for _, out, n in one_pass))


def test_both_products_are_measured_with_one_row(decode: Any) -> None:
    plan = decode.conditions(decode.prompts_of(range(500)))
    asked = [
        (c.contender, c.request["rows"], c.request["product"])
        for c in plan
        if c.request["work"] == "matrices"
    ]
    assert ("labkit FP32", 1, "F.linear") in asked
    assert ("labkit FP32", 1, "labkit.fused.linear") in asked


@pytest.fixture
def tiny_works(
    bench: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> dict[str, Callable[..., Any]]:
    """What the course's contender does, with a model of two layers."""
    import torch
    from safetensors.torch import save_file

    from labkit.llama_config import Config

    sizes = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "vocab_size": 97,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
    }
    text = json.dumps(sizes)
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    weights = {
        name: torch.ones(*shape)
        for name, shape in Config.from_dict(sizes).shapes().items()
    }
    save_file(weights, tmp_path / "model.safetensors")
    contenders = bench("contenders")
    monkeypatch.setattr(
        contenders.checkpoints, "model_folder", lambda: tmp_path
    )
    monkeypatch.setattr(
        contenders.checkpoints, "end_ids", lambda: frozenset([2])
    )
    made: dict[str, Callable[..., Any]] = contenders.labkit_works("float32")
    return made


def test_the_course_answers_each_request_of_the_plan(
    decode: Any, tiny_works: dict[str, Callable[..., Any]]
) -> None:
    prompts = [[n % 97 for n in ids] for ids in decode.prompts_of(range(500))]
    for condition in decode.conditions(prompts):
        if condition.contender == "labkit FP32":
            request = condition.request
            answer = tiny_works[request["work"]](request)
            figures = decode.without_ids(answer)
            assert len(figures) == 2
            assert all(value > 0 for value in figures.values())
            ids = answer.get("ids", [])
            assert len(ids) == len(request.get("prompts", []))
            assert all(len(row) == decode.NEW_TOKENS for row in ids)


@pytest.mark.parametrize(
    ("product", "parts"), [("F.linear", False), ("labkit.fused.linear", True)]
)
def test_each_product_is_the_one_that_is_named(
    tiny_works: dict[str, Callable[..., Any]],
    monkeypatch: pytest.MonkeyPatch,
    product: str,
    parts: bool,
) -> None:
    """`labkit.fused.linear` multiplies part by part, `F.linear` at once."""
    import torch

    calls: list[tuple[Any, ...]] = []
    bmm = torch.bmm

    def counting(*given: Any) -> Any:
        calls.append(given)
        return bmm(*given)

    monkeypatch.setattr(torch, "bmm", counting)
    request = {"work": "matrices", "rows": 1, "product": product}
    assert tiny_works["matrices"](request)["bytes_per_s"] > 0
    assert bool(calls) == parts


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


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_new_tokens_is_refused(
    bench: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    import requests

    timings = {"prompt_n": 3, "prompt_ms": 7.5, "predicted_ms": 40.0}

    def post(*args: object, **settings: object) -> requests.Response:
        answer = requests.Response()
        answer.status_code = 200
        text = json.dumps({"tokens": [5] * count, "timings": timings})
        answer._content = text.encode()
        return answer

    monkeypatch.setattr(requests, "post", post)
    llama_cpp = bench("llama_cpp")
    with pytest.raises(LabError, match=f"gave {count} of 2 new tokens"):
        llama_cpp.complete("http://127.0.0.1:1", [1, 2, 3], 2)
    made = llama_cpp.complete("http://127.0.0.1:1", [1, 2, 3], count)
    assert made.ids == (5,) * count


@pytest.fixture
def convert(
    bench: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[[], int]:
    """Asks for the F32 file; how often it has been written by now."""
    llama_cpp, written = bench("llama_cpp"), []
    source = tmp_path / "model"
    source.mkdir()
    (source / "small.gguf").write_bytes(b"small")

    def write(source: Path, target: Path) -> None:
        written.append(target)
        target.write_bytes(b"large")

    def convert() -> int:
        path = llama_cpp.f32_gguf(root=tmp_path, say=lambda text: None)
        assert path.read_bytes() == b"large"
        return len(written)

    monkeypatch.setattr(
        llama_cpp.checkpoints, "require", lambda *given: source
    )
    monkeypatch.setattr(llama_cpp, "write_f32", write)
    monkeypatch.setattr(llama_cpp, "NEEDED_BYTES", 0)
    return convert


def test_f32_gguf_is_written_once(convert: Callable[[], int]) -> None:
    assert [convert(), convert()] == [1, 1]


def test_f32_gguf_of_another_writer_is_written_anew(
    bench: Callable[[str], Any],
    convert: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    convert()
    monkeypatch.setattr(bench("llama_cpp"), "WRITER", 2)
    assert convert() == 2


@pytest.mark.parametrize("keep", [True, False])
def test_an_f32_gguf_without_a_pin_is_not_trusted(
    convert: Callable[[], int], tmp_path: Path, keep: bool
) -> None:
    """A manifest of no files says nothing about the one that lies there."""
    convert()
    (folder,) = (tmp_path / "peers").iterdir()
    path = folder / store.MANIFEST
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "files": {}}), encoding="utf-8")
    if not keep:
        (folder / "model.f32.gguf").unlink()
    assert convert() == 2


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
