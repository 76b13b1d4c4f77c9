"""A model with its tokenizer: text in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit import checkpoints, library

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

    from labkit.generation import Generation


@dataclass(frozen=True)
class TextModel:
    """A model with its tokenizer: what a server puts behind its door."""

    name: str
    tokenizer: Tokenizer
    model: Any

    @classmethod
    def load(
        cls, name: str = checkpoints.DEFAULT, root: Path | None = None
    ) -> TextModel:
        """Load a fetched checkpoint; LabError when it is not ready."""
        return cls(
            name,
            checkpoints.load_tokenizer(name, root),
            checkpoints.load_model(name, root),
        )

    @property
    def context(self) -> int:
        """Most tokens that prompt and answer may have together."""
        return int(self.model.config.max_position_embeddings)

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        return int(self.model.config.vocab_size)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; nothing is added in front or behind."""
        return list(self.tokenizer.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; half a character becomes U+FFFD."""
        return str(self.tokenizer.decode(list(ids)))

    def generate(
        self, prompt_ids: Sequence[int], max_new_tokens: int
    ) -> Generation:
        """Continue the ids greedily by exactly that many tokens."""
        return library.generate(self.model, prompt_ids, max_new_tokens)
