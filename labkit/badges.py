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
# What GitHub takes: an owner has up to 39 characters, with single dashes
# inside; a repository has up to 100, and .git and .wiki are GitHub's own.
REPOSITORY = re.compile(
    r"(?!.{40,}/)[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*/"
    r"(?!-|\.{1,2}$|.*\.(?i:git|wiki)$)[A-Za-z0-9._-]{1,100}"
)
# What git takes, without folders; GitHub refuses what could be a commit.
BRANCH = re.compile(
    r"(?![.-]|HEAD$|[0-9a-fA-F]{40}$|.*\.\.|.*\.(?:lock|git)$)"
    r"[A-Za-z0-9._-]*[A-Za-z0-9_-]"
)
LESSONS = "Lessons"
LESSONS_URL = re.compile(
    rf"({re.escape(HOST)}/[^/\s]+/[^/\s]+)/tree/([^/\s]+)/notebooks"
)
# A line of [project.urls]: what follows the value, as a comment, is kept.
ENTRY = (
    r"""^(?P<key>[ \t]*(?P<quote>["']?){name}(?P=quote)[ \t]*=[ \t]*)"""
    r"""(?:"[^"\n]*"|'[^'\n]*'|.*)"""
)
ROW = re.compile(
    r"^(\| \[\d\d [^|]+\]\((notebooks/[^)]+)\) \| [^|\n]+ \|).*$", re.M
)
HEADING = re.compile(
    r"^(\| lesson \| the question it answers \|).*\n(\| --- \| --- \|).*$",
    re.M,
)
URLS = re.compile(
    r"^[ \t]*\[[ \t]*project[ \t]*\.[ \t]*urls[ \t]*\][ \t]*(?:#.*)?\n"
    r"(?P<entries>(?:(?![ \t]*\[)(?:.*\n|.+\Z))*)",
    re.M,
)
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
            "letters, digits, dots, dashes and underscores that git and "
            "GitHub allow, without .git."
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

    Whatever else stands there is kept. ValueError for what is no TOML, and
    for addresses that are not a table [project.urls] with lines of its own.
    """
    named = {
        "Repository": address,
        LESSONS: f"{address}/tree/{branch}/notebooks",
    }
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"mend what is no valid TOML ({error})") from None
    after = _with_urls(text, named)
    try:
        wanted["project"].setdefault("urls", {}).update(named)
        understood = tomllib.loads(after) == wanted
    except (tomllib.TOMLDecodeError, KeyError, AttributeError):
        understood = False
    if not understood:
        raise ValueError(
            "the addresses have no place: write them as a table "
            "[project.urls], each on a line"
        )
    return after


def _with_urls(text: str, named: Mapping[str, str]) -> str:
    """A project's text in which some addresses are set."""
    if table := URLS.search(text):
        start, end = table.span("entries")
    else:
        start = end = text.find("[project.scripts]")
        if start < 0:
            raise ValueError("the table [project.scripts] was not found")
    entries, missing = text[start:end], ""
    for name, url in named.items():
        entry = re.compile(ENTRY.format(name=name), re.M)
        entries, found = entry.subn(rf'\g<key>"{url}"', entries, count=1)
        if not found:
            missing += f'{name} = "{url}"\n'
    if not table:
        missing = f"[project.urls]\n{missing}\n"
    return text[:start] + missing + entries + text[end:]


def repository_of(urls: Mapping[str, object]) -> tuple[str, str] | None:
    """The repository's address and the branch, of what `pyproject` wrote.

    None while no address is written; LabError for one that was changed into
    another form.
    """
    if LESSONS not in urls:
        return None
    found = LESSONS_URL.fullmatch(str(urls[LESSONS]))
    if not found:
        raise LabError(
            f"pyproject.toml: {LESSONS} is {urls[LESSONS]!r}, and should be "
            f"{HOST}/OWNER/NAME/tree/BRANCH/notebooks: write it with "
            "python -m labkit badges OWNER/NAME."
        )
    return found[1], found[2]


def citation(text: str, address: str) -> str:
    """Where the code is, for those who cite it."""
    return f"{CODE.sub('', text).rstrip()}\nrepository-code: {address}\n"


def notebook(text: str, address: str, branch: str) -> str:
    """What the first cell of a lesson fetches on Colab."""
    text, found = CLONED.subn(rf"\g<1>-b {branch} {address}\2", text)
    if found != 1:
        raise ValueError("the cell that fetches the course was not found")
    return text
