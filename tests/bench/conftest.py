"""The modules of `bench/`, which is no package: scripts lie there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="session")
def bench() -> Iterator[Callable[[str], Any]]:
    """Imports one of its modules by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module


@pytest.fixture(scope="session")
def reports(bench: Callable[[str], Any]) -> Any:
    """`bench/report.py`."""
    return bench("report")


@pytest.fixture(scope="session")
def decode(bench: Callable[[str], Any]) -> Any:
    """`bench/decode.py`."""
    return bench("decode")
