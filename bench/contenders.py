"""The contenders of `decode.py`, each in a process of its own.

    python bench/contenders.py NAME THREADS

A process loads one contender, says that it is ready, and answers requests:
a line of JSON in, a line of JSON out. Between requests it waits for the next
line and computes nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import IO, Any

from report import F_LINEAR, LINEAR

from labkit import checkpoints, machine
from labkit.errors import LabError

Request = Mapping[str, Any]
Answer = dict[str, Any]
Work = Callable[[Request], Answer]
"""What a contender does; each request names one."""
Product = Callable[[Any, Any], Any]
"""Rows [rows, in] and a weight [out, in] to [rows, out]."""

CONTEXT = 512
PASSES = 9
SPEED_TRIES = 12


def labkit_works(dtype: str) -> dict[str, Work]:
    """The course's own model with fused weights, FP32 or BF16."""
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file

    from labkit.fused import fuse, linear
    from labkit.llama import Llama
    from labkit.llama_config import Config

    folder = checkpoints.model_folder()
    kind = getattr(torch, dtype)
    weights = load_file(folder / "model.safetensors")
    weights = {name: tensor.to(kind) for name, tensor in weights.items()}
    model = fuse(Llama(Config.read(folder), weights))
    del weights
    never = checkpoints.end_ids()
    products: dict[str, Product] = {LINEAR: linear, F_LINEAR: F.linear}
    return {
        "generate": lambda request: _batch(model, never, request),
        "matrices": lambda request: matrices_alone(
            model, request["rows"], products[request["product"]]
        ),
    }


def _batch(model: Any, never: frozenset[int], request: Request) -> Answer:
    """Greedy continuation of prompts of one length, in step."""
    import torch

    from labkit.kv_cache import PreallocatedCache

    prompts, new_tokens = request["prompts"], request["new_tokens"]
    never_ids = torch.tensor(sorted(never))
    chosen = []
    with torch.inference_mode():
        start = time.perf_counter_ns()
        capacity = len(prompts[0]) + new_tokens
        cache = PreallocatedCache(
            model.config, capacity, len(prompts), model.dtype
        )
        ids = torch.tensor(prompts)
        for step in range(new_tokens):
            logits = model(ids, cache, last_only=True)[:, -1]
            logits[:, never_ids] = float("-inf")
            ids = logits.argmax(dim=-1, keepdim=True)
            chosen.append(ids)
            if step == 0:
                first = time.perf_counter_ns()
        end = time.perf_counter_ns()
    rows = torch.cat(chosen, dim=1).tolist()
    return generated(rows, (first - start) / 1e9, (end - first) / 1e9)


def generated(
    ids: list[list[int]], prefill_s: float, decode_s: float
) -> Answer:
    """Tokens of each sequence; the prefill ends with the first of them."""
    return {"ids": ids, "prefill_s": prefill_s, "decode_s": decode_s}


def matrices_alone(model: Any, rows: int, product: Product) -> Answer:
    """One pass through all weight matrices of a fused model, and no more.

    For `rows` rows of random numbers, each matrix read once: the median of
    `PASSES` passes in seconds, and the bytes of the matrices over it.
    """
    import torch

    pairs = []
    for layer in model.layers:
        pairs += [layer.qkv, layer.o, layer.gate_up, layer.down]
    inputs = {
        size: torch.randn(rows, size, dtype=model.dtype)
        for size in {weight.shape[1] for weight in (*pairs, model.head)}
    }
    steps = [(inputs[weight.shape[1]], weight) for weight in pairs]
    last = inputs[model.head.shape[1]]
    steps.append((last[-1:] if rows > MOST_SEQUENCES else last, model.head))
    seconds = []
    with torch.inference_mode():
        for _ in range(PASSES):
            start = time.perf_counter_ns()
            for x, weight in steps:
                product(x, weight)
            seconds.append((time.perf_counter_ns() - start) / 1e9)
    pass_s = statistics.median(seconds)
    read = sum(weight.nbytes for _, weight in steps)
    return {"pass_s": pass_s, "bytes_per_s": read / pass_s}


MOST_SEQUENCES = 16
"""More rows than that are positions of one prompt, with logits for one."""


def transformers_works() -> dict[str, Work]:
    """The library's own `generate`, with its fused attention."""
    model = checkpoints.load_model()
    return {"generate": lambda request: _library(model, request)}


class Stamps:
    """A streamer of the library: notes when each token was handed over."""

    def __init__(self) -> None:
        self.seen_ns: list[int] = []

    def put(self, value: Any) -> None:
        """Called with the prompt, then with every new token."""
        self.seen_ns.append(time.perf_counter_ns())

    def end(self) -> None:
        """Called after the last token."""


def _library(model: Any, request: Request) -> Answer:
    import torch

    (prompt,), new_tokens = request["prompts"], request["new_tokens"]
    ids = torch.tensor([prompt])
    stamps = Stamps()
    with torch.inference_mode():
        start = time.perf_counter_ns()
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            use_cache=True,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            streamer=stamps,
        )
    _, first, *_, last = stamps.seen_ns
    rows = [output[0, len(prompt) :].tolist()]
    return generated(rows, (first - start) / 1e9, (last - first) / 1e9)


def llama_cpp_works(threads: int) -> dict[str, Work]:
    """llama.cpp's server in this process, the same weights in F32."""
    import llama_cpp

    gguf = llama_cpp.f32_gguf(say=_log)
    server = llama_cpp.serve(gguf, threads, CONTEXT)

    def generate(request: Request) -> Answer:
        (prompt,), new_tokens = request["prompts"], request["new_tokens"]
        address = server.listening_address
        made = llama_cpp.complete(address, prompt, new_tokens)
        if made.prompt_tokens != len(prompt):
            raise LabError(
                f"llama.cpp computed {made.prompt_tokens} of {len(prompt)}"
                " prompt tokens: it did not do the same work."
            )
        prefill_s, decode_s = made.prompt_ms / 1e3, made.predicted_ms / 1e3
        return generated([list(made.ids)], prefill_s, decode_s)

    return {"generate": generate}


def memory_works(threads: int) -> dict[str, Work]:
    """No model: how fast this machine reads and multiplies."""
    import torch  # loaded here, not when the first request is timed

    torch.set_num_threads(threads)
    return {
        "speed": lambda request: asdict(
            machine.measure_speed(threads, SPEED_TRIES)
        )
    }


def works_of(name: str, threads: int) -> dict[str, Work]:
    """Load a contender; LabError for an unknown one."""
    makers: dict[str, Callable[[], dict[str, Work]]] = {
        "labkit FP32": lambda: labkit_works("float32"),
        "labkit BF16": lambda: labkit_works("bfloat16"),
        "transformers": transformers_works,
        "llama.cpp": lambda: llama_cpp_works(threads),
        "machine": lambda: memory_works(threads),
    }
    if name not in makers:
        raise LabError(f"There is no contender {name!r}.")
    return makers[name]()


def answer_all(
    works: Mapping[str, Work], lines: IO[str], out: IO[str]
) -> None:
    """Answer request after request until the lines end."""
    for line in lines:
        request = json.loads(line)
        found = works[request["work"]](request)
        print(json.dumps(found, allow_nan=False), file=out, flush=True)


def _log(text: str) -> None:
    print(text, file=sys.stderr)


def main(name: str, threads: int) -> None:
    """Keep standard output for answers: libraries write to it as well."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        works = works_of(name, threads)
        print(json.dumps({"ready": name}), file=out, flush=True)
        answer_all(works, sys.stdin, out)
    except LabError as error:
        print(json.dumps({"error": str(error)}), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
