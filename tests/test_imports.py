"""What is imported when: the light parts of labkit stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from labkit import __main__

PACKAGE = Path(labkit.__file__).parent

# Packages that take a moment to import; `--help` must come without them.
HEAVY = ("torch", "transformers", "scipy", "pandas", "matplotlib")

# These run before anything is installed, on whatever Python there is.
BARE = ("__init__.py", "bootstrap.py", "errors.py")

COMMANDS = [
    [info.callback.__name__]
    for info in __main__.app.registered_commands
    if info.callback is not None
]

LIST_MODULES = """
import sys
before = set(sys.modules)
import labkit
print("\\n".join(set(sys.modules) - before))
"""

SHOW_HELP = f"""
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
sys.argv = ["labkit", *sys.argv[1:]]
runpy.run_module("labkit", run_name="__main__", alter_sys=True)
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def imported(path: Path) -> set[str]:
    """Names of the modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = python(LIST_MODULES)
    assert done.returncode == 0, done.stderr
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    assert "labkit" in modules
    assert not modules & {*HEAVY, "numpy", "flask"}
    assert modules <= sys.stdlib_module_names | {"labkit"}


@pytest.mark.parametrize("name", BARE)
def test_bare_modules_need_only_the_standard_library(name: str) -> None:
    others = {f"labkit.{Path(other).stem}" for other in BARE}
    for module in imported(PACKAGE / name):
        top = module.partition(".")[0]
        assert top in sys.stdlib_module_names or module in others


@pytest.mark.parametrize("name", BARE)
def test_bare_modules_can_be_read_by_old_pythons(name: str) -> None:
    source = (PACKAGE / name).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 8))


@pytest.mark.parametrize("command", [[], *COMMANDS])
def test_help_comes_without_the_heavy_packages(command: list[str]) -> None:
    done = python(SHOW_HELP, *command, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_the_heavy_packages_are_absent_in_that_check() -> None:
    done = python(SHOW_HELP.replace('"labkit", run', '"torch", run'))
    assert "ModuleNotFoundError: torch" in done.stderr
