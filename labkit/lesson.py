"""What a notebook talks to: the card, recorded numbers, checks, tables."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from labkit import checkpoints, machine, records, tables
from labkit.errors import LabError


class Lesson:
    """One lesson while it runs.

    Making it sets the number of threads that PyTorch uses, to two or to the
    cores that there are, and shows a card. Raises LabError when the model
    is not ready.
    """

    def __init__(self, number: str, model: str = checkpoints.DEFAULT) -> None:
        import torch

        self.number = number
        self.checkpoint = checkpoints.find(model)
        checkpoints.require(self.checkpoint)
        self.machine = machine.identify()
        self.software = machine.software()
        self.threads = machine.default_threads()
        self.speed = machine.speed(self.threads)
        torch.set_num_threads(self.threads)
        _keep_loopback_direct(os.environ)
        self.table(("this run", ""), self._card())

    def peak_rss_bytes(self) -> int:
        """Most memory that this notebook's process ever held."""
        return machine.peak_rss_bytes()

    def _card(self) -> list[tuple[str, str]]:
        here, speed = self.machine, self.speed
        versions = ", ".join(f"{k} {v}" for k, v in self.software.items())
        return [
            ("lesson", self.number),
            ("processor", here.cpu),
            ("cores, threads", f"{here.cores}, {self.threads}"),
            ("memory", f"{here.ram_bytes / 2**30:.1f} GiB"),
            ("system", f"{here.system} {here.architecture}"),
            ("versions", versions),
            ("reads memory at", f"{speed.read_bytes_per_s / 1e9:.1f} GB/s"),
            ("FP32 arithmetic", f"{speed.flop_per_s / 1e9:.0f} GFLOP/s"),
            ("model", self.checkpoint.title),
            ("number format", self.checkpoint.number_format),
        ]

    def record(  # noqa: PLR0913 - a record has that many parts
        self,
        name: str,
        value: Any,
        unit: str = "",
        rule: records.Rule = "info",
        *,
        rtol: float = 0.0,
        atol: float = 0.0,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        """Show a number and leave it in the output with its rule.

        `rule` is "exact", "close" (with `rtol`, `atol`), "ratio" (with the
        range `low` to `high` expected on any machine) or "info".
        """
        from IPython.display import display

        made = records.Record(
            name,
            records.plain(value),
            unit,
            rule,
            rtol=rtol,
            atol=atol,
            low=low,
            high=high,
        )
        display(records.bundle(made), raw=True)

    def check(self, statement: str, holds: bool) -> None:
        """Say that a statement holds, or stop the notebook here."""
        if not holds:
            raise LabError(
                f"This does not hold: {statement}. Run the cells above again "
                "in order; if it stays so, compare the versions on the card "
                "with the committed notebook's."
            )
        print(f"holds: {statement}")

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[str]]
    ) -> None:
        """Show rows of text as a table, with a plain-text form of it."""
        from IPython.display import display

        lines = [tuple(header), *(tuple(row) for row in rows)]
        display(
            {"text/html": as_html(lines), "text/plain": tables.as_text(lines)},
            raw=True,
        )


def _keep_loopback_direct(environment: MutableMapping[str, str]) -> None:
    """Tell HTTP clients to ask this machine without a proxy between."""
    for name in ("NO_PROXY", "no_proxy"):
        known = environment.get(name, "")
        if "127.0.0.1" not in known:
            parts = [
                part for part in (known, "127.0.0.1", "localhost") if part
            ]
            environment[name] = ",".join(parts)


def as_html(lines: Sequence[Sequence[str]]) -> str:
    """Rows as an HTML table whose first row and column are headers."""
    head, *body = lines
    made = ["<table><thead><tr>"]
    made += [f'<th scope="col">{html.escape(cell)}</th>' for cell in head]
    made.append("</tr></thead><tbody>")
    for first, *rest in body:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        scope = f'<th scope="row">{html.escape(first)}</th>'
        made.append(f"<tr>{scope}{cells}</tr>")
    made.append("</tbody></table>")
    return "".join(made)


def rows_of(mapping: Mapping[str, object]) -> list[tuple[str, str]]:
    """Rows for `Lesson.table` from names and values."""
    return [(name, str(value)) for name, value in mapping.items()]
