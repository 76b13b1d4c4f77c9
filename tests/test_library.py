"""The library's generation of a fixed count, tiny and real."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from labkit.errors import LabError
from labkit.library import generate
from labkit.text_model import TextModel

GRAVITY = [22007, 6463, 314]
PUBLISHED_SHAPE = 16


@pytest.fixture(scope="module")
def tiny() -> Any:
    """A two-layer Llama with random weights that never change."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config).eval()


def greedy_by_hand(model: Any, ids: list[int], count: int) -> list[int]:
    """The whole text through the model again for every token."""
    text = list(ids)
    with torch.inference_mode():
        for _ in range(count):
            scores = model(torch.tensor([text])).logits[0, -1].clone()
            scores[model.config.eos_token_id] = -torch.inf
            text.append(int(scores.argmax()))
    return text[len(ids) :]


@pytest.mark.parametrize("prompt", [[5], [5, 9, 11], list(range(3, 40))])
def test_tokens_equal_the_loop_without_a_cache(
    tiny: Any, prompt: list[int]
) -> None:
    made = generate(tiny, prompt, 12)
    assert list(made.ids) == greedy_by_hand(tiny, prompt, 12)
    assert made.prompt_tokens == len(prompt)


def test_the_count_is_kept_when_the_model_wants_to_stop(tiny: Any) -> None:
    # All scores are equal but the end token's, which is by far the best.
    import copy

    eager_to_end = copy.deepcopy(tiny)
    eager_to_end.lm_head = torch.nn.Linear(32, 97)
    with torch.no_grad():
        eager_to_end.lm_head.weight.zero_()
        eager_to_end.lm_head.bias.zero_()
        eager_to_end.lm_head.bias[2] = 10.0
    made = generate(eager_to_end, [5, 9], 7)
    assert len(made.ids) == 7
    assert 2 not in made.ids


def test_time_is_that_of_the_injected_clock(tiny: Any) -> None:
    ticks = iter([1_000_000_000, 3_500_000_000])
    made = generate(tiny, [5, 9], 5, clock=lambda: next(ticks))
    assert made.seconds == 2.5
    assert made.tokens_per_second == 2.0


@pytest.mark.parametrize(
    ("prompt", "count", "words"),
    [
        ([], 4, "at least one"),
        ([5], 0, "at least one"),
        ([5], -3, "at least one"),
        ([5] * 60, 5, "do not fit a context of 64"),
    ],
)
def test_what_cannot_be_generated_is_refused(
    tiny: Any, prompt: list[int], count: int, words: str
) -> None:
    with pytest.raises(LabError, match=words):
        generate(tiny, prompt, count)


def test_the_context_can_be_filled_to_the_last_token(tiny: Any) -> None:
    assert len(generate(tiny, [5] * 60, 4).ids) == 4


@pytest.mark.model
def test_real_tokens_equal_the_library(text_model: TextModel) -> None:
    made = text_model.generate(GRAVITY, PUBLISHED_SHAPE)
    expected = greedy_by_hand(text_model.model, GRAVITY, PUBLISHED_SHAPE)
    assert list(made.ids) == expected


@pytest.mark.model
def test_special_looking_text_is_ordinary(text_model: TextModel) -> None:
    ids = text_model.encode("<|im_end|>")
    assert len(ids) > 1
    assert text_model.decode(ids) == "<|im_end|>"


@pytest.mark.model
def test_limits_are_the_models(text_model: TextModel) -> None:
    assert text_model.context == 8192
    assert text_model.vocabulary == 49_152
