"""Fixtures that several groups of tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit import checkpoints, store
from labkit.text_model import TextModel


@pytest.fixture(scope="session", autouse=True)
def results_elsewhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Lessons that run in tests leave no results in the course's folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("results")
        patch.setenv("LABKIT_RESULTS", str(folder))
        yield


@pytest.fixture(scope="session")
def model_home() -> Path:
    """Cache folder that holds the course's own model, fetched if need be."""
    checkpoints.fetch(checkpoints.find(checkpoints.DEFAULT))
    return store.home()


@pytest.fixture(scope="session")
def text_model(model_home: Path) -> TextModel:
    """The real model with its tokenizer; treat it as read-only."""
    return TextModel.load(root=model_home)


@pytest.fixture
def tokenizer(model_home: Path) -> Any:
    """The real tokenizer."""
    return checkpoints.load_tokenizer(root=model_home)
