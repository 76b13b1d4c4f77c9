"""The public address of a copy of the course, wherever it has to stand.

Binder and Colab open a lesson from a public repository. Which one that is
nobody knows before it is published, and a fork has another; so badges are
written by a command. Each function takes a file's text and gives the new
one, and gives the same text when called a second time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from labkit import course, store
from labkit.errors import LabError

HOST = "https://github.com"
BINDER, BINDER_IMAGE = (
    "https://mybinder.org/v2/gh",
    "https://mybinder.org/badge_logo.svg",
)
COLAB, COLAB_IMAGE = (
    "https://colab.research.google.com/github",
    "https://colab.research.google.com/assets/colab-badge.svg",
)
REPOSITORY = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)(?!.*\.git$)[A-Za-z0-9._-]+"
)
BRANCH = re.compile(
    r"(?![.-])(?!.*\.\.)(?!.*\.lock$)[A-Za-z0-9._-]*[A-Za-z0-9_-]"
)
ROW = re.compile(
    r"^(\| \[\d\d [^|]+\]\((notebooks/[^)]+)\) \| [^|\n]+ \|).*$", re.M
)
HEADING = re.compile(
    r"^(\| lesson \| the question it answers \|).*\n(\| --- \| --- \|).*$",
    re.M,
)
URLS = re.compile(r"^\[project\.urls\] *\n(?:(?!\[).*\n)*", re.M)
CLONED = re.compile(r"(git clone -q )(?:-b \S+ )?\S+( ~/lab)")
CODE = re.compile(r"^repository-code: .*\n", re.M)


def write(root: Path, repository: str, branch: str) -> list[Path]:
    """Name `OWNER/NAME` in a course's files; those that changed.

    LabError for what is no repository, and for a file that has lost the
    place where the address belongs; then no file is written.
    """
    if not REPOSITORY.fullmatch(repository):
        raise LabError(
            f"{repository!r} is no repository: write OWNER/NAME, as in the "
            f"address {HOST}/OWNER/NAME, without .git."
        )
    if not BRANCH.fullmatch(branch):
        raise LabError(
            f"{branch!r} cannot be used as a branch here: take a name of "
            "letters, digits, dots, dashes and underscores that git allows."
        )
    address = f"{HOST}/{repository}"
    edits: dict[Path, Callable[[str], str]] = {
        root / "README.md": lambda text: readme(text, repository, branch),
        root / "pyproject.toml": lambda text: pyproject(text, address, branch),
        root / "CITATION.cff": lambda text: citation(text, address),
    }
    for path in course.notebooks(root):
        edits[path] = lambda text: notebook(text, address, branch)
    changed = {}
    for path, edit in edits.items():
        before = path.read_text(encoding="utf-8")
        try:
            after = edit(before)
        except ValueError as error:
            raise LabError(f"{path.name}: {error}.") from None
        if after != before:
            changed[path] = after
    for path, text in changed.items():
        store.write_text(path, text)
    return list(changed)


def readme(text: str, repository: str, branch: str) -> str:
    """A column of badges beside the table of lessons."""
    text, headings = HEADING.subn(r"\1 without installing |\n\2 --- |", text)
    text, rows = ROW.subn(
        lambda row: f"{row[1]} {badges(row[2], repository, branch)} |", text
    )
    if headings != 1 or not rows:
        raise ValueError("the table of lessons was not found")
    return text


def badges(path: str, repository: str, branch: str) -> str:
    """Markdown of the two badges of the notebook at `path`."""
    binder = f"{BINDER}/{repository}/{branch}?urlpath=lab/tree/{path}"
    colab = f"{COLAB}/{repository}/blob/{branch}/{path}"
    return (
        f"[![Open in Binder]({BINDER_IMAGE})]({binder})"
        f" [![Open in Colab]({COLAB_IMAGE})]({colab})"
    )


def pyproject(text: str, address: str, branch: str) -> str:
    """The project's addresses, which the site's buttons are made from.

    Other addresses that stand there are kept.
    """
    named = {
        "Repository": address,
        "Lessons": f"{address}/tree/{branch}/notebooks",
    }
    if table := URLS.search(text):
        urls = table[0]
        text = text[: table.start()] + text[table.end() :]
        start = table.start()
    else:
        urls, start = "[project.urls]\n\n", text.find("[project.scripts]")
    if start < 0:
        raise ValueError("the table [project.scripts] was not found")
    text = text[:start] + _with_urls(urls, named) + text[start:]
    try:
        found = tomllib.loads(text)["project"]["urls"]
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the addresses have no place ({error})") from None
    if any(found.get(name) != url for name, url in named.items()):
        raise ValueError("the table [project.urls] was not understood")
    return text


def _with_urls(table: str, named: Mapping[str, str]) -> str:
    """The lines of a table, of which some entries are set."""
    head, *lines = table.splitlines(keepends=True)
    for name, url in reversed(list(named.items())):
        entry = re.compile(rf"""["']?{name}["']? *=""")
        lines = [line for line in lines if not entry.match(line)]
        lines.insert(0, f'{name} = "{url}"\n')
    return "".join([head, *lines])


def citation(text: str, address: str) -> str:
    """Where the code is, for those who cite it."""
    return f"{CODE.sub('', text).rstrip()}\nrepository-code: {address}\n"


def notebook(text: str, address: str, branch: str) -> str:
    """What the first cell of a lesson fetches on Colab."""
    text, found = CLONED.subn(rf"\g<1>-b {branch} {address}\2", text)
    if found != 1:
        raise ValueError("the cell that fetches the course was not found")
    return text
