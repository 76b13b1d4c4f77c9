"""Facts about other models: as the file has them, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit import baselines, known_models, kv_cache
from labkit.errors import LabError
from labkit.known_models import KnownModel

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def models() -> tuple[KnownModel, ...]:
    return known_models.load(baselines.data_folder())


@pytest.fixture
def document() -> dict[str, Any]:
    path = baselines.data_folder() / known_models.FILE
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_a_dozen_models_of_every_kind(models: tuple[KnownModel, ...]) -> None:
    assert len(models) >= 12
    kinds = {kv_cache.kind(model) for model in models}
    assert kinds == {"MHA", "GQA", "MQA"}


def test_the_lesson_s_own_model(models: tuple[KnownModel, ...]) -> None:
    own = known_models.find(models, "SmolLM2-135M")
    found = (own.layers, own.query_heads, own.kv_heads, own.head_size)
    assert found == (30, 9, 3, 64)
    assert (own.hidden, own.vocabulary, own.context) == (576, 49_152, 8_192)
    assert own.parameters == 134_515_008


def test_every_model_has_a_source(models: tuple[KnownModel, ...]) -> None:
    for model in models:
        source = model.source
        assert source.repository.count("/") == 1, model.name
        assert len(source.commit) == 40, model.name
        assert model.hub_id.count("/") == 1, model.name


def test_an_unknown_name_is_answered_with_the_known(
    models: tuple[KnownModel, ...],
) -> None:
    with pytest.raises(LabError, match=r"Llama-9.*SmolLM2-135M"):
        known_models.find(models, "Llama-9")


CHANGES: dict[str, tuple[Change, str]] = {
    "no model": (lambda d: d.update(models=[]), "holds no model"),
    "twice": (lambda d: d["models"].append(d["models"][0]), "twice"),
    "zero": (lambda d: d["models"][0].update(layers=0), "layers must be"),
    "heads": (lambda d: d["models"][0].update(kv_heads=2), "cannot share"),
    "text": (lambda d: d["models"][0].update(layers="30"), "layers"),
    "lacking": (lambda d: d["models"][0].pop("source"), "lacks 'source'"),
    "unknown": (lambda d: d["models"][0].update(window=9), "unknown field"),
    "version": (lambda d: d.update(version=2), "version 2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_wrong_file_is_refused_by_name(
    name: str, document: dict[str, Any], tmp_path: Path
) -> None:
    change, reason = CHANGES[name]
    change(document)
    path = tmp_path / known_models.FILE
    path.parent.mkdir()
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(LabError, match=reason) as caught:
        known_models.load(tmp_path)
    assert "known_models.json was not read" in str(caught.value)


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"known_models\.json was not read"):
        known_models.load(tmp_path)
