"""docs/server.md names what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from labkit.serving import openai_protocol
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine

MANUAL = Path(__file__).parents[2] / "docs" / "server.md"


@pytest.fixture(scope="module")
def manual() -> str:
    return MANUAL.read_text(encoding="utf-8")


@pytest.fixture
def app(backend: Any) -> Any:
    engine = SingleSlotEngine(lambda: backend)
    yield create_app(engine)
    assert engine.close()


def test_every_route_is_described(app: Flask, manual: str) -> None:
    text = " ".join(manual.split())
    for rule in app.url_map.iter_rules():
        methods = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        for method in methods:
            assert f"**{method} {rule.rule}**" in text


def test_every_metric_is_described(app: Flask, manual: str) -> None:
    section = manual.partition("## /metrics")[2].partition("\n## ")[0]
    shown = app.test_client().get("/metrics").text
    for family in text_string_to_metric_families(shown):
        name = family.name.removeprefix("labkit:")
        if family.type == "counter":
            name += "_total"
        if not name.endswith("_created"):
            assert f"`{name}`" in section


def test_every_field_of_openais_is_where_it_belongs(manual: str) -> None:
    section = manual.partition("## OpenAI's routes")[2].partition("\n## ")[0]
    bullets = re.split(r"\n+- |\n\n", section)
    obeyed, refused, ignored = (
        next(part for part in bullets if part.startswith(word))
        for word in ("Obeyed", "Refused", "Ignored")
    )
    for fields, part in (
        (openai_protocol.COMMON, obeyed),
        (openai_protocol.NEUTRAL, refused),
        (openai_protocol.IGNORED, ignored),
    ):
        assert [name for name in fields if f"`{name}`" not in part] == []
