"""What docs/loadgen.md shows of the two results on load generators.

    python bench/loadgen_page.py    # print it, to put into the page

The page's own words come first; what is made here is its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import loadgen_report
import tool_report

from labkit import documents, machine

RESULTS = Path(__file__).resolve().parent / "results"
PRECISION, TOOLS = "loadgen.json", "loadgen_tools.json"


def as_markdown(
    precision: Mapping[str, Any], tools: Mapping[str, Any], folder: str
) -> str:
    """The measured part of the page, from both documents.

    `folder` is the name of the one below `bench/results` that has them.
    """
    report = loadgen_report.from_json(precision)
    return "\n".join(
        [
            "## Precision of labkit's client",
            "",
            _made("loadgen", folder),
            "",
            loadgen_report.as_markdown(report),
            "",
            "## Three tools on the same time lines",
            "",
            _made("loadgen_tools", folder),
            "",
            tool_report.as_markdown(tools),
        ]
    )


def _made(name: str, folder: str) -> str:
    file = f"{name}.json"
    return (
        f"Made from [{file}](../bench/results/{folder}/{file}) by"
        f" `python bench/{name}.py --show`."
    )


def main() -> None:
    """Print it for this machine and software."""
    folder = machine.slug(machine.identify(), machine.software())
    precision = documents.read(RESULTS / folder / PRECISION)
    tools = documents.read(RESULTS / folder / TOOLS)
    print(as_markdown(precision, tools, folder), end="")


if __name__ == "__main__":
    main()
