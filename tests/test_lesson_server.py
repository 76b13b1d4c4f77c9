"""The server that lesson 01 builds by hand against `labkit.serving`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from labkit import checkpoints
from labkit.serving.app import create_app
from labkit.serving.backend import ModelBackend
from labkit.serving.engine import SingleSlotEngine
from labkit.text_model import TextModel

NOTEBOOK = Path(__file__).parents[1] / "notebooks/01_serve_a_model.ipynb"
BUILT = (
    "sixteen",
    "timed",
    "refusal",
    "count",
    "prompt",
    "validate",
    "step-3-app",
    "step-3-generate",
)
BODIES: list[dict[str, Any]] = [
    {"prompt": "Gravity is", "max_new_tokens": 8},
    {"prompt_ids": [22007, 6463, 314], "max_new_tokens": 8},
    {"prompt": "Gravity is"},
    {"prompt": "Gravity is", "max_new_tokens": 0},
    {"prompt": "Gravity is", "max_new_tokens": -1},
    {"prompt": "Gravity is", "max_new_tokens": 1.5},
    {"prompt": "Gravity is", "max_new_tokens": True},
    {"prompt": "Gravity is", "max_new_tokens": "8"},
    {"max_new_tokens": 8},
    {"prompt": "", "max_new_tokens": 8},
    {"prompt_ids": [], "max_new_tokens": 8},
    {"prompt_ids": [49152], "max_new_tokens": 8},
    {"prompt_ids": [-1], "max_new_tokens": 8},
    {"prompt": "Gravity is", "max_new_tokens": 8190},
]


@pytest.fixture(scope="module")
def by_hand(text_model: TextModel) -> Any:
    """The app of the notebook, from the source of its cells."""
    import requests
    import torch
    from flask import Flask, request

    namespace: dict[str, Any] = {
        "torch": torch,
        "requests": requests,
        "Flask": Flask,
        "request": request,
        "tokenizer": text_model.tokenizer,
        "model": text_model.model,
        "prompt_ids": [22007, 6463, 314],
        "prompt": "Gravity is",
        "lesson": SimpleNamespace(
            record=lambda *_, **__: None,
            checkpoint=SimpleNamespace(name=text_model.name),
        ),
    }
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = {cell.id: cell.source for cell in notebook.cells}
    for name in BUILT:
        exec(cells[name], namespace)
    namespace["app"].testing = False
    return namespace["app"].test_client()


@pytest.fixture(scope="module")
def from_labkit(text_model: TextModel, model_home: Path) -> Any:
    from labkit.llama import Llama

    backend = ModelBackend(
        text_model.name,
        text_model.tokenizer,
        Llama.of(text_model.model),
        checkpoints.end_ids(root=model_home),
    )
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready()
    yield create_app(engine).test_client()
    engine.close()


@pytest.mark.model
@pytest.mark.parametrize("body", BODIES, ids=str)
def test_same_answer_or_same_refusal(
    by_hand: Any, from_labkit: Any, body: dict[str, Any]
) -> None:
    one, other = (
        client.post("/generate", json=body)
        for client in (by_hand, from_labkit)
    )
    assert one.status_code == other.status_code
    if one.status_code == 200:
        for name in ("text", "ids", "prompt_tokens", "new_tokens"):
            assert one.json[name] == other.json[name]
        assert one.json.keys() == other.json.keys()
    else:
        assert one.json["error"]["code"] == other.json["error"]["code"]


@pytest.mark.model
def test_health_of_both(by_hand: Any, from_labkit: Any) -> None:
    one, other = (c.get("/health") for c in (by_hand, from_labkit))
    assert one.status_code == other.status_code == 200
    for name in ("status", "model"):
        assert one.json[name] == other.json[name]
