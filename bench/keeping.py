"""What benches share: where a result is kept, and `--show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from labkit import documents, machine, store
from labkit.errors import LabError

RESULTS = Path(__file__).resolve().parent / "results"

Report = TypeVar("Report")


def path_here(file: str) -> Path:
    """Where the result of this machine and software lies."""
    slug = machine.slug(machine.identify(), machine.software())
    return RESULTS / slug / file


def arguments(about: str | None, file: str) -> argparse.ArgumentParser:
    """A parser that knows `--show`; `about` begins with what is measured."""
    parser = argparse.ArgumentParser(
        description=(about or "").partition("\n")[0]
    )
    parser.add_argument(
        "--show",
        nargs="?",
        type=Path,
        const=path_here(file),
        metavar="FILE",
        help="print a kept result as Markdown",
    )
    return parser


def show(pages: ModuleType, path: Path) -> None:
    """Print a kept result as Markdown."""
    print(pages.as_markdown(pages.from_json(documents.read(path))))


def run_or_show(
    about: str | None,
    file: str,
    pages: ModuleType,
    run: Callable[[], Report],
) -> Report | None:
    """Run, print and keep; or, with `--show`, print what was kept.

    `pages` has `from_json`, `as_markdown`, `as_text` and `to_text` of the
    report. None where nothing was run.
    """
    shown: Path | None = arguments(about, file).parse_args().show
    if shown is not None:
        show(pages, shown)
        return None
    report = run()
    keep(pages, report, path_here(file))
    return report


def keep(pages: ModuleType, report: Report, path: Path) -> None:
    """Print a report, then keep it: what was measured is seen in any case.

    LabError when the disk refuses.
    """
    print(pages.as_text(report), flush=True)
    try:
        store.write_text(path, pages.to_text(report))
    except OSError as error:
        raise LabError(
            f"The report above could not be kept in {path.parent}"
            f" ({error.strerror or error}): free space there or make it"
            " writable, and run this again."
        ) from error
    print(f"\nKept in {path}")


def require(pages: ModuleType, report: Report | None) -> None:
    """End with status 1 when a check of a report does not hold."""
    if report is not None and not all(c.holds for c in pages.checks(report)):
        sys.exit(1)
