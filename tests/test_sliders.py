"""Controls over models: what they show and what they do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from labkit import baselines, known_models, sliders
from labkit.known_models import KnownModel
from labkit.sliders import Choice

GIB = 2**30


@pytest.fixture(scope="module")
def models() -> tuple[KnownModel, ...]:
    return known_models.load(baselines.data_folder())


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def controls(form: Any) -> tuple[Any, ...]:
    return tuple(form.children)


def test_bytes_of_a_choice(models: tuple[KnownModel, ...]) -> None:
    own = known_models.find(models, "SmolLM2-135M")
    choice = Choice(own, length=300, conversations=2, dtype="float32")
    assert choice.per_token == 46_080
    assert choice.cache_bytes == 2 * 300 * 46_080


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (46_080, "45.0 KiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (2000 * 2**40, "2,000.0 TiB"),
    ],
)
def test_sizes_in_words(count: int, text: str) -> None:
    assert sliders.size(count) == text


def test_lengths_end_with_the_context(models: tuple[KnownModel, ...]) -> None:
    of = {model.name: sliders.lengths(model) for model in models}
    assert of["Falcon-7B"] == (128, 256, 512, 1024, 2048)
    assert of["Qwen3-0.6B"][-2:] == (32_768, 40_960)
    for model in models:
        found = of[model.name]
        assert list(found) == sorted(set(found))
        assert found[-1] == model.context


def test_moving_a_control_changes_the_figures(
    models: tuple[KnownModel, ...],
) -> None:
    model, length, conversations, dtype, said = controls(
        sliders.form(models, 16 * GIB)
    )
    model.value = "Llama-3-8B"
    length.value = 8192
    conversations.value = 16
    dtype.value = "float16"
    shown = words(said.value)
    assert "GQA" in shown
    assert "2 x 32 layers x 8 KV heads x 128 values x 2 bytes" in shown
    assert "131,072 bytes" in shown
    assert "16 of them 16.0 GiB" in shown
    assert "cache: 100.0% of this machine" in shown
    # 16 GiB less 2 x 8,030,261,248 bytes of weights, over 1 GiB each
    assert "conversations beside the weights 1 " in shown
    dtype.value = "int4"
    assert "0.5 bytes" in words(said.value)
    assert "16 of them 4.0 GiB" in words(said.value)


def test_a_shorter_context_keeps_what_it_can(
    models: tuple[KnownModel, ...],
) -> None:
    model, length, *_, said = controls(sliders.form(models, 16 * GIB))
    model.value = "Qwen3-0.6B"
    length.value = 40_960
    model.value = "Llama-2-7B"
    assert length.value == length.options[-1] == 4096
    assert "a conversation 2.0 GiB" in words(said.value)


def test_weights_that_do_not_fit_are_said(
    models: tuple[KnownModel, ...],
) -> None:
    model, *_, said = controls(sliders.form(models, 16 * GIB))
    model.value = "Llama-3-70B"
    assert "none: the weights do not fit" in words(said.value)
    assert "more than there is" in words(said.value)


def test_a_reader_without_a_kernel_sees_every_model(
    models: tuple[KnownModel, ...],
) -> None:
    text, page = sliders.as_text(models), sliders.as_html(models)
    for model in models:
        assert model.name in text
        assert model.name in page
    row = next(line for line in text.splitlines() if "Llama-2-7B" in line)
    assert re.split(r"  +", row)[1:] == [
        *("MHA", "32", "32", "32", "128"),
        *("512.0 KiB", "2.0 GiB", "12.6 GiB"),
    ]


def test_shown_with_text_beside_the_widget(
    models: tuple[KnownModel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw: shown.append(data)
    )
    sliders.show(models, 16 * GIB)
    (data,) = shown
    assert data["text/plain"] == sliders.as_text(models)
    assert data["text/html"] == sliders.as_html(models)
    assert "application/vnd.jupyter.widget-view+json" in data
