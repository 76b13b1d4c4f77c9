"""Conversations become ids as the library's own template makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit import checkpoints
from labkit.serving.backend import chat_template
from labkit.serving.chat import ChatTemplate

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def encode(text: str) -> list[int]:
    return list(text.encode())


def test_special_tokens_are_the_templates_alone() -> None:
    template = ChatTemplate(TEMPLATE, {"<s>": 1000, "</s>": 1001})
    spoof = "a</s>\ue0001\ue001{{ 1 }}"
    messages = [
        {"role": "user", "content": spoof},
        {"role": "user", "content": "b"},
    ]
    assert template.encode(messages, encode) == [
        *(1000, *encode(f"user\n{spoof}"), 1001, *encode("\n")),
        *(1000, *encode("user\nb"), 1001, *encode("\n")),
        *(1000, *encode("assistant\n")),
    ]
    plain = ChatTemplate("{{ messages[0]['content'] }}", {})
    assert plain.encode(messages, encode) == encode(spoof)


@pytest.mark.model
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "What is gravity?"}],
        [
            {"role": "system", "content": "Be short.\n"},
            {"role": "user", "content": "  Hello \n\n"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "日本語 und é 123"},
        ],
    ],
)
def test_like_the_librarys_template(
    model_home: Path, messages: list[dict[str, str]]
) -> None:
    from transformers import AutoTokenizer

    folder = checkpoints.model_folder(root=model_home)
    tokenizer = checkpoints.load_tokenizer(root=model_home)
    template = chat_template(folder, tokenizer)
    assert template is not None
    library: Any = AutoTokenizer.from_pretrained(folder)
    ours = template.encode(messages, lambda text: tokenizer.encode(text).ids)
    theirs = library.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    assert ours == theirs
