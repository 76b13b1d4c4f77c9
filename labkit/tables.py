"""Rows of text as a table."""

from __future__ import annotations

import html
from collections.abc import Sequence


def as_text(lines: Sequence[Sequence[str]]) -> str:
    """Rows in columns of equal width, the first row a heading."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def as_html(lines: Sequence[Sequence[str]]) -> str:
    """Rows as an HTML table whose first row and column are headers.

    JupyterLab aligns cells to the right; these hold words.
    """
    head, *body = lines
    made = ["<table><thead><tr>"]
    made += [_cell("th", cell, "col") for cell in head]
    made.append("</tr></thead><tbody>")
    for first, *rest in body:
        cells = "".join(_cell("td", cell) for cell in rest)
        made.append(f"<tr>{_cell('th', first, 'row')}{cells}</tr>")
    made.append("</tbody></table>")
    return "".join(made)


def _cell(tag: str, text: str, scope: str = "") -> str:
    of = f' scope="{scope}"' if scope else ""
    style = ' style="text-align:left"'
    return f"<{tag}{of}{style}>{html.escape(text)}</{tag}>"
