"""Rows of text as a table."""

from __future__ import annotations

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
