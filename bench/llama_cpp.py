"""llama.cpp as a contender: the model as F32 GGUF, and one timed request.

llama.cpp comes with the package xllamacpp, of the optional group `peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import checkpoints, store
from labkit.errors import LabError
from labkit.store import Manifest, Pin

PACKAGE = "xllamacpp"
MISSING = (
    "llama.cpp is left out, because the package xllamacpp is not installed:"
    ' run `python -m pip install -c constraints.txt -e ".[peers]"`.'
)
FILE = "model.f32.gguf"
WRITER = 1
"""Counts the ways in which `write_f32` has written; another writes anew."""
NEEDED_BYTES = 600 * 2**20
TIMEOUT_S = 120
LEFT_BEHIND = ("GGUF.", "general.file_type", "general.quantization_version")
"""Fields that the writer makes itself, or that speak of quantized blocks."""


@dataclass(frozen=True)
class Timed:
    """One request; milliseconds by llama.cpp's own clock.

    `prompt_ms` ends when the first token is chosen, so `predicted_ms`
    covers the other n - 1.
    """

    ids: tuple[int, ...]
    prompt_tokens: int
    prompt_ms: float
    predicted_ms: float


def write_f32(source: Path, target: Path) -> None:
    """Write a GGUF of the same model with every tensor in F32.

    llama.cpp's names and its order of rows stay as they are: nothing but
    the number format changes.
    """
    import numpy as np
    from gguf import GGUFReader, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize

    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for name, entry in reader.fields.items():
        left = (*LEFT_BEHIND, "general.architecture")
        if not name.startswith(left):
            kind, *inner = entry.types
            sub = inner[-1] if inner else None
            writer.add_key_value(name, entry.contents(), kind, sub)
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.astype(np.float32, copy=False))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def f32_gguf(
    name: str = checkpoints.DEFAULT,
    root: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """The model as F32 GGUF, converted once and checked before each use.

    It lies beside the models in the cache folder, never in the course's.
    LabError when the model was not fetched or has no GGUF.
    """
    root = root or store.home()
    folder = root / "peers" / f"{name}-f32"
    checkpoint = checkpoints.find(name)
    revision = f"{checkpoint.revision}, writer {WRITER}"
    kept = Manifest.read(folder)
    fresh = kept is not None and kept.revision == revision
    if kept is not None and fresh and not kept.problems(folder, [FILE]):
        return folder / FILE
    source = _gguf_of(checkpoints.require(checkpoint, root))
    with store.replacing(folder, root) as staged:
        store.require_space(root, NEEDED_BYTES)
        say(f"Writing {source.name} as F32 for llama.cpp, once ...")
        write_f32(source, staged / FILE)
        pins = {FILE: Pin.of(staged / FILE)}
        Manifest(name, source.name, revision, pins).write(staged)
    return folder / FILE


def _gguf_of(folder: Path) -> Path:
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise LabError(
            f"{folder.name} has {len(found)} GGUF files, where llama.cpp"
            f" needs one: compare with the model {checkpoints.DEFAULT}."
        )
    return found[0]


def serve(gguf: Path, threads: int, context: int) -> Any:
    """A llama.cpp server in this process, F32 cache, one slot.

    The cache is F32 as the weights are; llama.cpp's default would be F16.
    """
    from xllamacpp import CommonParams, Server, ggml_type

    settings = CommonParams()
    settings.model.path = str(gguf)
    settings.port = 0  # a free one
    settings.n_ctx = context
    settings.n_parallel = 1
    settings.ui = False
    settings.fit_params = False
    settings.cache_ram_mib = 0
    settings.cache_type_k = ggml_type.GGML_TYPE_F32
    settings.cache_type_v = ggml_type.GGML_TYPE_F32
    for cpu in (settings.cpuparams, settings.cpuparams_batch):
        cpu.n_threads = threads
    return Server(settings)


def complete(address: str, prompt: Sequence[int], new_tokens: int) -> Timed:
    """Continue a prompt greedily by exactly `new_tokens` tokens.

    LabError when the server gives fewer or more.
    """
    import requests

    request = {
        "prompt": list(prompt),
        "n_predict": new_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
        "return_tokens": True,
    }
    answer = requests.post(
        f"{address}/completion", json=request, timeout=TIMEOUT_S
    )
    answer.raise_for_status()
    made = timed(answer.json())
    if len(made.ids) != new_tokens:
        raise LabError(
            f"llama.cpp gave {len(made.ids)} of {new_tokens} new tokens: it"
            " did not do the same work."
        )
    return made


def timed(answer: dict[str, Any]) -> Timed:
    """What llama.cpp answered; LabError for an answer without timings."""
    try:
        timings = answer["timings"]
        return Timed(
            tuple(answer["tokens"]),
            timings["prompt_n"],
            timings["prompt_ms"],
            timings["predicted_ms"],
        )
    except (KeyError, TypeError) as error:
        raise LabError(
            f"llama.cpp answered something else ({str(answer)[:200]}): see"
            " whether the version of xllamacpp is the one in pyproject.toml."
        ) from error
