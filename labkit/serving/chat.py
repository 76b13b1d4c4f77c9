"""From a conversation to token ids, by the template of the model.

The template's own special tokens become their ids. What people wrote is
always ordinary text, also where it reads like a special token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MARK = "\ue000{}\ue001"
"""Stands for the content of a message while the template is filled in."""


@dataclass(frozen=True)
class ChatTemplate:
    """A model's template, and the ids of the special tokens by their text."""

    template: str
    special: Mapping[str, int]

    def encode(
        self,
        messages: Sequence[Mapping[str, str]],
        encode: Callable[[str], list[int]],
    ) -> list[int]:
        """Ids up to where the answer begins.

        `encode` takes every text for ordinary. Text between two special
        tokens is encoded in one piece, as a tokenizer would that saw the
        whole.
        """
        contents = [message["content"] for message in messages]
        # Without special tokens, what never matches.
        either = "|".join(map(re.escape, self.special)) or "(?!)"
        ids: list[int] = []
        for part in re.split(f"({either})", self._filled(messages)):
            if part in self.special:
                ids.append(self.special[part])
            elif part:
                ids += encode(_with_contents(part, contents))
        return ids

    def _filled(self, messages: Sequence[Mapping[str, str]]) -> str:
        # A template is a program; in the sandbox it can only make text.
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True
        )
        marked = [
            {"role": message["role"], "content": MARK.format(index)}
            for index, message in enumerate(messages)
        ]
        filled: str = environment.from_string(self.template).render(
            messages=marked, add_generation_prompt=True
        )
        return filled


def _with_contents(part: str, contents: Sequence[str]) -> str:
    pattern = MARK.format(r"(\d+)")
    return re.sub(pattern, lambda mark: contents[int(mark[1])], part)
