"""Shapes of well-known models, with where each was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit import documents
from labkit.errors import LabError

FILE = Path("models") / "known_models.json"
SCHEMA = "labkit.known_models"
VERSION = 1
COUNTS = (
    "layers",
    "query_heads",
    "kv_heads",
    "head_size",
    "hidden",
    "context",
    "vocabulary",
    "parameters",
)


@dataclass(frozen=True)
class Source:
    """A file in a public GitHub repository, at one commit."""

    repository: str
    path: str
    commit: str


@dataclass(frozen=True)
class KnownModel:
    """What decides how many bytes its cache and its weights take.

    Names are those of `labkit.llama_config.Config`; `hub_id` is where the
    model is published, `parameters` counts shared tables once.
    """

    name: str
    hub_id: str
    layers: int
    query_heads: int
    kv_heads: int
    head_size: int
    hidden: int
    context: int
    vocabulary: int
    parameters: int
    source: Source

    def __post_init__(self) -> None:
        for field in COUNTS:
            if getattr(self, field) < 1:
                raise LabError(f"{self.name}: {field} must be 1 or more")
        if self.query_heads % self.kv_heads:
            raise LabError(
                f"{self.name}: {self.query_heads} query heads cannot share"
                f" {self.kv_heads} key/value heads"
            )


@dataclass(frozen=True)
class _Stored:
    """The file below its schema."""

    about: tuple[str, ...]
    models: tuple[KnownModel, ...]


def load(data: Path) -> tuple[KnownModel, ...]:
    """The models in the course's `data` folder, in the file's order.

    LabError, naming the file, when it is not one of models.
    """
    path = data / FILE
    document = documents.read(path)
    try:
        rest = documents.require_schema(document, SCHEMA, VERSION)
        models = documents.decode(_Stored, rest).models
        _require_names(models)
    except LabError as error:
        raise documents.refusal(path, str(error)) from error
    return models


def find(models: Sequence[KnownModel], name: str) -> KnownModel:
    """The model of that name; LabError with the known ones for another."""
    for model in models:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in models)
    raise LabError(f"There is no model {name!r} here: choose one of {known}.")


def _require_names(models: Sequence[KnownModel]) -> None:
    names = [model.name for model in models]
    if not names:
        raise LabError("it holds no model")
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"it has {name} twice")
