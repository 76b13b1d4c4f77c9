"""A model with its tokenizer, as the engine runs it one step at a time."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labkit import checkpoints, documents, generation
from labkit.kv_cache import PreallocatedCache
from labkit.serving.chat import ChatTemplate
from labkit.serving.protocol import GenerateRequest, Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

    from labkit.llama import Llama

PREFILL_CHUNK = 256
"""Most prompt tokens between two moments at which a cancel is noticed."""


def chat_template(folder: Path, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The template of a model's folder; None when it has none."""
    config = documents.read(folder / "tokenizer_config.json")
    template = config.get("chat_template")
    if not isinstance(template, str):
        return None
    added = tokenizer.get_added_tokens_decoder()
    special = {
        token.content: index for index, token in added.items() if token.special
    }
    return ChatTemplate(template, special)


def _fused(folder: Path) -> Llama:
    """A model's folder as fused weights, never all of them twice.

    The tensors of `Llama.load` are parts of one mapped file, which stays in
    memory up to the last of them. Read one by one, into pages of its own,
    each goes once it is copied.
    """
    from safetensors import safe_open

    from labkit.fused import fuse, packed
    from labkit.llama import Llama
    from labkit.llama_config import Config

    config = Config.read(folder)
    weights = {}
    for name in config.shapes():
        with safe_open(folder / "model.safetensors", "pt") as file:
            (weights[name],) = packed([file.get_tensor(name)])
    model = Llama(config, weights)
    del weights  # or nothing is freed by `fuse`
    return fuse(model)


@dataclass(frozen=True)
class ModelBackend:
    """A `worker.Backend` around a model that fills the course's caches."""

    name: str
    tokenizer: Tokenizer
    model: generation.Model
    end_ids: frozenset[int]
    chat: ChatTemplate | None = None
    chunk: int = PREFILL_CHUNK
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(
        cls,
        name: str = checkpoints.DEFAULT,
        root: Path | None = None,
        *,
        fused: bool = False,
    ) -> ModelBackend:
        """A fetched checkpoint; LabError if it is not ready.

        With the weights of `labkit.fused` decoding is faster.
        """
        from labkit.llama import Llama

        folder = checkpoints.model_folder(name, root)
        tokenizer = checkpoints.load_tokenizer(name, root)
        return cls(
            name,
            tokenizer,
            _fused(folder) if fused else Llama.load(folder),
            checkpoints.end_ids(name, root),
            chat_template(folder, tokenizer),
        )

    @property
    def context(self) -> int:
        """Most tokens that prompt and answer may have together."""
        return self.model.config.context

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        return self.model.config.vocabulary

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; nothing is added in front or behind."""
        with self._lock:
            return list(self.tokenizer.encode(text).ids)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of a conversation, up to where the answer begins."""
        if self.chat is None:
            raise Refusal(
                400,
                "no_chat_template",
                f"{self.name} knows no conversations; use /v1/completions.",
            )
        return self.chat.encode(messages, self.encode)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; half a character becomes U+FFFD."""
        with self._lock:
            return str(self.tokenizer.decode(list(ids)))

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        """Prefill in chunks, None after each but the last; then the ids."""
        ids = request.prompt_ids
        cache = PreallocatedCache(
            self.model.config,
            len(ids) + request.max_new_tokens,
            dtype=self.model.dtype,
        )
        last = (len(ids) - 1) // self.chunk * self.chunk
        for start in range(0, last, self.chunk):
            part = ids[start : start + self.chunk]
            generation.prefill(self.model, part, cache)
            yield None
        tokens = generation.stream(
            self.model,
            ids[last:],
            request.max_new_tokens,
            cache=cache,
            sampling=request.sampling,
            stop=self.end_ids if request.stop_at_end else (),
            never=() if request.stop_at_end else self.end_ids,
        )
        for token in tokens:
            yield token.id
