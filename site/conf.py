"""The course as a site, from the committed notebooks: `make site`.

Sphinx reads the whole repository as its source, so that links between
notebooks, README and docs lead to the same places here and there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from ipython_pygments_lexers import IPython3Lexer
from sphinx.errors import ConfigError
from sphinx.util.docutils import SphinxDirective

from labkit import badges, baselines, course, machines
from labkit.errors import LabError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Inference Engineering Lab"
author = "the authors of the course"
copyright = f"2026, {author}. Apache-2.0"
html_title = project

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.githubpages",
    "sphinx.ext.mathjax",
]
root_doc = "site/index"
include_patterns = [
    "site/**.md",
    "docs/*.md",
    "exercises/README.md",
    "notebooks/*.ipynb",
    "README.md",
    "INSTRUCTORS.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".venv", "results", "_site", "exercises/mine"]

# The committed outputs are the course's; nothing is run here.
nb_execution_mode = "off"
# A page has no kernel for widgets: it shows the table beside them.
nb_mime_priority_overrides = [
    ("html", "application/vnd.jupyter.widget-view+json", None)
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "sphinx_book_theme"
html_theme_options: dict[str, Any] = {"home_page_in_toc": True}
_pyproject = Path(__file__).parents[1] / "pyproject.toml"
_about = tomllib.loads(_pyproject.read_text(encoding="utf-8"))["project"]
# `python -m labkit badges` writes it; until then no page has these buttons.
try:
    _source = badges.repository_of(_about.get("urls", {}))
except LabError as error:
    raise ConfigError(str(error)) from None
if _source:
    _repository, _branch = _source
    html_theme_options |= {
        "repository_url": _repository,
        "repository_branch": _branch,
        "use_repository_button": True,
        "launch_buttons": {
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
            "notebook_interface": "jupyterlab",
        },
    }


class Everyone(SphinxDirective):
    """Every machine's figures, as `compare --all` shows them."""

    def run(self) -> list[nodes.Node]:
        """A section for each lesson that somebody has measured."""
        sections: list[nodes.Node] = []
        for path in course.notebooks():
            try:
                found = machines.of_lesson(
                    path.name[:2], baselines.data_folder(), None, None
                )
            except LabError:
                continue
            sections.append(section(path.stem, found))
        return sections


def section(name: str, found: machines.Everyone) -> nodes.section:
    """One lesson's tables, and the baselines that were left out."""
    made = nodes.section(ids=[nodes.make_id(name)])
    words = name.replace("_", " ").capitalize()
    made += nodes.title(text=words)
    for ranking in found.rankings:
        made += nodes.rubric(text=machines.title(ranking))
        made += table(machines.rows(ranking))
    for each in found.refused:
        made += nodes.paragraph(text=f"{each.name}: left out, {each.reason}.")
    return made


def table(rows: list[tuple[str, ...]]) -> nodes.table:
    """Rows of text, the first a heading."""
    made, group = nodes.table(), nodes.tgroup(cols=len(rows[0]))
    made += group
    group.extend(nodes.colspec(colwidth=1) for _ in rows[0])
    head, body = nodes.thead(), nodes.tbody()
    group.extend((head, body))
    for number, cells in enumerate(rows):
        row = nodes.row()
        for cell in cells:
            row += nodes.entry("", nodes.paragraph(text=cell))
        (body if number else head).append(row)
    return made


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx: make the directive known, and magics of notebooks."""
    app.add_directive("every-machine", Everyone)
    app.add_lexer("python", IPython3Lexer)
    return {"parallel_read_safe": True}
