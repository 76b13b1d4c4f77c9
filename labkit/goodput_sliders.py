"""Controls for objectives: what the same records are worth under others.

A reader without a kernel sees a table of the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labkit import tables
from labkit.loadtest import sweep
from labkit.loadtest.rates import Objectives
from labkit.loadtest.records import Record

Runs = Mapping[str, Mapping[float, Sequence[Record]]]
"""By the server's name and the offered rate: what its clients recorded."""
TIGHTER, LOOSER, STEPS = 0.2, 5.0, 40
"""A control goes from a fifth of a bound to five times it."""
HEAD = ("offered, /s", "sent", "failed", "in time", "share", "goodput, /s")


def show(runs: Runs, objectives: Objectives) -> None:
    """Display the controls, and tables where there is no kernel."""
    from IPython.display import display

    made = form(runs, objectives)._repr_mimebundle_()
    data = dict(made[0] if isinstance(made, tuple) else made)
    data["text/plain"] = as_text(runs, objectives)
    data["text/html"] = as_html(runs, objectives)
    display(data, raw=True)


def form(runs: Runs, objectives: Objectives) -> Any:
    """Server and bounds, with the goodput at each rate that results.

    A control for each bound that `objectives` has, from much tighter to
    much looser; the last position of each asks for nothing.
    """
    import ipywidgets

    wide = {"style": {"description_width": "8em"}, "layout": {"width": "32em"}}
    server = ipywidgets.Dropdown(
        options=list(runs), description="server", **wide
    )
    bounds = {
        name: ipywidgets.SelectionSlider(
            options=choices(bound),
            value=bound,
            description=f"{label} up to",
            **wide,
        )
        for name, label in (
            ("ttft_ms", "TTFT"),
            ("tpot_ms", "TPOT"),
            ("e2e_ms", "E2E"),
        )
        if (bound := getattr(objectives, name)) is not None
    }
    said = ipywidgets.HTML()

    def update(_: object = None) -> None:
        moved = {name: each.value for name, each in bounds.items()}
        chosen = replace(objectives, **moved)
        said.value = tables.as_html(rows(runs[server.value], chosen))

    controls = [server, *bounds.values()]
    for control in controls:
        control.observe(update, "value")
    update()
    return ipywidgets.VBox([*controls, said])


def choices(bound_ms: float) -> list[tuple[str, float]]:
    """Bounds in equal ratios around one that is among them, and infinity."""
    half = STEPS // 2
    below = [TIGHTER ** (k / half) for k in range(half, 0, -1)]
    above = [LOOSER ** (k / half) for k in range(half + 1)]
    found = [
        (_ms(bound_ms * factor), bound_ms * factor)
        for factor in (*below, *above)
    ]
    # None would be no choice at all to a widget.
    return [*found, ("any", math.inf)]


def rows(
    runs: Mapping[float, Sequence[Record]], objectives: Objectives
) -> list[tuple[str, ...]]:
    """A line for each offered rate; the highest goodput is marked."""
    levels = sweep.levels(runs, objectives)
    best = sweep.best(levels)
    found: list[tuple[str, ...]] = [HEAD]
    for level in levels:
        good = level.goodput
        failed = sum(not record.ok for record in runs[level.rate_per_s])
        per_s = "" if good.per_s is None else f"{good.per_s:.1f}"
        mark = " (highest)" if level is best and good.met else ""
        found.append(
            (
                f"{level.rate_per_s:.1f}",
                str(good.total),
                str(failed),
                str(good.met),
                "" if good.share is None else f"{good.share:.0%}",
                per_s + mark,
            )
        )
    return found


def as_text(runs: Runs, objectives: Objectives) -> str:
    """Every server's figures, for a reader without a kernel."""
    parts = [_asked(objectives)]
    for name, own in runs.items():
        parts += ["", f"{name}:", tables.as_text(rows(own, objectives))]
    return "\n".join(parts)


def as_html(runs: Runs, objectives: Objectives) -> str:
    """The same as tables of a page."""
    parts = [f"<div>{_asked(objectives)}</div>"]
    for name, own in runs.items():
        head = (name, *("" for _ in HEAD[1:]))
        parts.append(tables.as_html([head, *rows(own, objectives)]))
    return "".join(parts)


def _asked(objectives: Objectives) -> str:
    given = {
        "TTFT": objectives.ttft_ms,
        "TPOT": objectives.tpot_ms,
        "E2E": objectives.e2e_ms,
        "TTFT from schedule": objectives.ttft_from_schedule_ms,
    }
    named = [f"{k} up to {_ms(v)}" for k, v in given.items() if v is not None]
    return "objectives: " + (", ".join(named) or "none but an answer")


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"
