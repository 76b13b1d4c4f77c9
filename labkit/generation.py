"""Token ids in, token ids out, with the time it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit import checkpoints
from labkit.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

Clock = Callable[[], int]


@dataclass(frozen=True)
class Generation:
    """What one call produced.

    `ids` are the new tokens alone; `seconds` covers the generation call and
    nothing else: the prompt's ids were made before.
    """

    ids: tuple[int, ...]
    prompt_tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """New tokens over the whole time of the call, prefill included."""
        return len(self.ids) / self.seconds


def generate(
    model: Any,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    clock: Clock = time.perf_counter_ns,
) -> Generation:
    """Continue `prompt_ids` greedily by exactly `max_new_tokens` tokens.

    The end token is never chosen, so that every run does the same work.
    Raises LabError when nothing is asked, or more than the context holds.
    """
    import torch

    context = model.config.max_position_embeddings
    if not prompt_ids or max_new_tokens < 1:
        raise LabError("Give at least one prompt token and ask for one more.")
    if len(prompt_ids) + max_new_tokens > context:
        raise LabError(
            f"{len(prompt_ids)} prompt tokens and {max_new_tokens} new ones "
            f"do not fit a context of {context}: ask for fewer."
        )
    prompt = torch.tensor([list(prompt_ids)])
    mask = torch.ones_like(prompt)
    with torch.inference_mode():
        start = clock()
        output = model.generate(
            prompt,
            attention_mask=mask,
            do_sample=False,
            use_cache=True,
            min_new_tokens=max_new_tokens,
            max_new_tokens=max_new_tokens,
        )
        seconds = (clock() - start) / 1e9
    new = tuple(output[0, len(prompt_ids) :].tolist())
    return Generation(new, len(prompt_ids), seconds)


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
        return generate(self.model, prompt_ids, max_new_tokens)
