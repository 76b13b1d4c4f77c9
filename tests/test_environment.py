"""pyproject.toml, constraints.txt and environment.yml say the same.

`disagreements` states the rules; the last test plants one fault at a time to
see that each of them is found.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from labkit import bootstrap

ROOT = Path(bootstrap.__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = (
    {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux"},
    {
        "sys_platform": "darwin",
        "os_name": "posix",
        "platform_system": "Darwin",
    },
    {"sys_platform": "win32", "os_name": "nt", "platform_system": "Windows"},
)


@dataclass(frozen=True)
class Files:
    """The texts of the three files."""

    pyproject: str
    constraints: str
    environment: str


def read_files() -> Files:
    names = ("pyproject.toml", "constraints.txt", "environment.yml")
    return Files(*((ROOT / name).read_text("utf-8") for name in names))


def project(files: Files) -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads(files.pyproject)["project"]
    return loaded


def wanted(files: Files) -> list[Requirement]:
    """What the project and its test group ask for."""
    metadata = project(files)
    groups = metadata["optional-dependencies"]
    return [*map(Requirement, metadata["dependencies"] + groups["test"])]


def pins(files: Files) -> Iterator[Requirement]:
    for line in files.constraints.splitlines():
        text = line.partition("#")[0].strip()
        if text:
            yield Requirement(text)


def disagreements(files: Files) -> Iterator[str]:
    """Yield one sentence for each rule that is broken."""
    try:
        list(pins(files))
    except InvalidRequirement as error:
        yield f"constraints.txt: {error}"
        return
    yield from faults_of_pins(files)
    yield from faults_of_ranges(files)
    yield from faults_of_environment(files)


def faults_of_pins(files: Files) -> Iterator[str]:
    seen: set[str] = set()
    for pin in pins(files):
        name = canonicalize_name(pin.name)
        exact = [s for s in pin.specifier if s.operator == "=="]
        if len(exact) != 1 or "*" in exact[0].version:
            yield f"{pin} is no single version"
        elif Version(exact[0].version).local:
            yield f"{pin} has a local suffix"
        if name != pin.name or pin.extras:
            yield f"{pin} is not written as {name}"
        if name in seen:
            yield f"{name} is pinned twice"
        seen.add(name)
    ordered = [pin.name for pin in pins(files)]
    if ordered != sorted(ordered):
        yield "constraints.txt is not in order"


def version_of(pin: Requirement) -> str:
    return next(iter(pin.specifier)).version


def faults_of_ranges(files: Files) -> Iterator[str]:
    pinned = {pin.name: pin for pin in pins(files)}
    for requirement in wanted(files):
        pin = pinned.get(canonicalize_name(requirement.name))
        if pin is None:
            yield f"{requirement.name} has no pin"
        elif not requirement.specifier.contains(version_of(pin)):
            yield f"{pin} is outside {requirement}"
        elif pin.marker is not None:
            yield f"{pin} does not hold everywhere"
    build = tomllib.loads(files.pyproject)["build-system"]["requires"]
    for requirement in map(Requirement, build):
        if not requirement.specifier.contains(
            version_of(pinned[requirement.name])
        ):
            yield f"the pin of {requirement.name} is outside {requirement}"


def faults_of_environment(files: Files) -> Iterator[str]:
    loaded = yaml.safe_load(files.environment)
    conda = [d for d in loaded["dependencies"] if isinstance(d, str)]
    pip = next(d["pip"] for d in loaded["dependencies"] if isinstance(d, dict))
    supported = SpecifierSet(project(files)["requires-python"])
    python = [d.partition("=")[2] for d in conda if d.startswith("python=")]
    if not python or not supported.contains(python[0]):
        yield f"environment.yml has Python {python}, wanted {supported}"
    if sorted(d.partition("=")[0] for d in conda) != ["pip", "python"]:
        yield "environment.yml takes more than Python and pip from conda"
    index = f"--extra-index-url {bootstrap.CPU_INDEX}"
    for option in (index, "-c constraints.txt", "-e ."):
        if option not in pip:
            yield f"environment.yml does not say {option}"
    pinned = {pin.name: pin for pin in pins(files)}
    for line in pip:
        if line.startswith("-"):
            continue
        requirement = Requirement(line)
        pin = pinned.get(canonicalize_name(requirement.name))
        if pin is None or requirement.specifier != pin.specifier:
            yield f"environment.yml has {line}, constraints.txt {pin}"


def test_the_files_agree() -> None:
    assert list(disagreements(read_files())) == []


def test_torch_is_read_from_the_pins() -> None:
    version = bootstrap.torch_version(ROOT / "constraints.txt")
    assert f"torch=={version}" in project(read_files())["dependencies"]


def test_the_groups_of_the_set_up_are_those_of_the_project() -> None:
    groups = project(read_files())["optional-dependencies"]
    assert sorted(groups) == sorted(bootstrap.GROUPS)


def test_the_pythons_of_the_set_up_are_those_of_the_project() -> None:
    supported = SpecifierSet(project(read_files())["requires-python"])
    for minor in range(8, 20):
        allowed = bootstrap.in_range((3, minor))
        assert supported.contains(f"3.{minor}") == allowed


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s["sys_platform"])
def test_every_marker_has_an_answer_on_every_system(
    python: str, system: dict[str, str]
) -> None:
    here = {
        **{key: str(value) for key, value in default_environment().items()},
        **system,
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    applying = {
        pin.name
        for pin in pins(read_files())
        if pin.marker is None or pin.marker.evaluate(here)
    }
    windows = system["sys_platform"] == "win32"
    assert ("pywinpty" in applying) == windows
    assert ("pexpect" in applying) == (not windows)
    assert ("overrides" in applying) == (python == "3.11")


def needs(name: str, extra: str) -> Iterator[tuple[str, str]]:
    """What an installed package needs here, as pairs of name and extra."""
    for line in requires(name) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": extra}):
            needed = canonicalize_name(requirement.name)
            yield from ((needed, e) for e in ("", *requirement.extras))


def closure(name: str, extras: tuple[str, ...]) -> set[str]:
    """Names of all packages that an installed one needs here."""
    seen: set[tuple[str, str]] = set()
    new = {(name, extra) for extra in extras}
    while new:
        seen |= new
        new = {found for pair in new for found in needs(*pair)} - seen
    return {found for found, _ in seen} - {name}


def test_everything_that_comes_along_is_pinned() -> None:
    pinned = {pin.name for pin in pins(read_files())}
    unpinned = closure("labkit", ("", "test")) - pinned
    # What a CUDA build of torch brings is pinned by torch.
    cuda = ("nvidia-", "cuda-", "triton")
    assert {name for name in unpinned if not name.startswith(cuda)} == set()
    assert len(pinned) > 100


def edited(files: Files, field: str, pattern: str, by: str) -> Files:
    """Return the files with one passage of one of them replaced."""
    text, count = re.subn(
        pattern, by, getattr(files, field), count=1, flags=re.MULTILINE
    )
    assert count == 1, pattern
    changed: Files = replace(files, **{field: text})
    return changed


@pytest.mark.parametrize(
    ("field", "pattern", "by", "sentence"),
    [
        ("constraints", "^numpy==.*", "numpy==1.26.4", "outside numpy"),
        ("constraints", "^numpy==.*\n", "", "numpy has no pin"),
        ("constraints", "^pytest==.*\n", "", "pytest has no pin"),
        ("constraints", "^flask==.*", "flask>=3.1", "no single version"),
        ("constraints", "^flask==.*", "flask==3.*", "no single version"),
        ("constraints", r"^(torch==\S+)", r"\1+cpu", "local suffix"),
        ("constraints", "^jinja2", "Jinja2", "not written as jinja2"),
        ("constraints", "^(six==.*)", r"\1\n\1", "six is pinned twice"),
        ("constraints", "^appnope", "zappnope", "not in order"),
        ("constraints", "^colorama.*", "colorama==1 ; x", "constraints.txt:"),
        (
            "constraints",
            "^(flask==.*)",
            r'\1 ; sys_platform == "linux"',
            "does not hold everywhere",
        ),
        ("constraints", "^setuptools==.*", "setuptools==65.5", "setuptools"),
        ("pyproject", 'torch==[^"]+', "torch==2.14.0", "outside torch"),
        ("pyproject", '"flask>=', '"unpinned", "flask>=', "no pin"),
        ("environment", "python=.*", "python=3.10", "has Python"),
        ("environment", "python=.*", "python", "has Python"),
        ("environment", "- pip$", "- pip\n  - numpy", "more than Python"),
        ("environment", ".*-c const.*\n", "", "does not say -c"),
        ("environment", ".*-e .*\n", "", "does not say -e"),
        ("environment", "whl/cpu", "whl/cu130", "does not say --extra"),
        ("environment", "(- -e .)", r"\1\n      - numpy==1.0", "has numpy"),
        ("environment", "(- -e .)", r"\1\n      - nonsense==1", "has nonse"),
    ],
)
def test_a_planted_fault_is_found(
    field: str, pattern: str, by: str, sentence: str
) -> None:
    faulty = edited(read_files(), field, pattern, by)
    assert any(sentence in fault for fault in disagreements(faulty))
