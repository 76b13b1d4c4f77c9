"""The order of the modules, as the package's docstring tells it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from labkit import exercises

PREFIX = "labkit.exercises."


def imported(path: Path) -> set[str]:
    """Modules of this package that a module imports, wherever it does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.module.removeprefix(PREFIX)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(PREFIX)
        and node.module is not None
    }


def test_each_module_imports_only_those_named_before_it() -> None:
    assert exercises.__doc__ is not None
    named = list(dict.fromkeys(re.findall(r"`(\w+)`", exercises.__doc__)))
    folder = Path(exercises.__file__).parent
    modules = {path.stem: path for path in folder.glob("*.py")}
    del modules["__init__"]
    assert sorted(named) == sorted(modules)
    for place, name in enumerate(named):
        assert imported(modules[name]) <= set(named[:place]), name
