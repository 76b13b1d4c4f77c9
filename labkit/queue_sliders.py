"""Controls over a waiting line: what a formula and a simulation give.

A reader without a kernel sees a table of the same figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from labkit import queue_simulation, queueing, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from labkit.queue_simulation import Visit

LOADS = (40, 60, 80, 90, 95, 105)
"""In per cent of the capacity of all slots."""
VARIATIONS = (0.0, 1.0, 2.0)
MOST_SLOTS = 4
COUNT = 2000
"""Requests of a simulated run; the first quarter does not count."""
NEAR_FULL = 0.9
"""Beyond this load such a run is too short to reach the long run."""
RUNS = 60
LEAST = 0.001
"""Milliseconds, or service times, that are told from none but not counted."""
SHOWN = 200
"""Service times that the picture spans."""
TOP = 10
"""The picture's height is a multiple of so many requests."""
PICTURE_SEED = 194
"""One of some hundred whose short run is like the long one: about as many in
the system as by formula, and the more the larger the spread."""
PICTURED = ((80, 0.0, 1), (80, 1.5, 1), (40, 1.5, 2))
"""Load, spread and slots of the committed picture: all of one rate."""
COLUMNS = (
    "load",
    "spread",
    "slots",
    "rate, requests/s",
    "wait, ms",
    "in service times",
)


@dataclass(frozen=True)
class Choice:
    """What the controls are set to."""

    rate_per_s: float
    mean_s: float
    variation: float
    """Standard deviation / mean of the service time."""
    slots: int

    @property
    def load(self) -> float:
        """Share of the slots that the requests need; 1 is capacity."""
        return queueing.utilization(self.rate_per_s, self.mean_s, self.slots)

    @property
    def wait_s(self) -> float | None:
        """Mean wait by formula; None at or over capacity."""
        return queueing.mgc_wait_s(
            self.rate_per_s,
            self.mean_s,
            (self.variation * self.mean_s) ** 2,
            self.slots,
        )

    @property
    def formula(self) -> str:
        """Which formula that is, and whether it is exact."""
        if self.slots == 1:
            return "Pollaczek-Khinchine"
        if self.variation == 1:
            return f"M/M/{self.slots}"
        return "Lee-Longton, an approximation"

    def simulated(self, count: int, seed: int) -> list[Visit]:
        """Random arrivals, gamma-distributed service times.

        With the same seed a higher rate has the same gaps, made shorter, and
        the same service times, so that nobody's wait gets shorter.
        """
        # No secrets: a seed is there to give the same run again.
        arrivals_s = queue_simulation.poisson_arrivals(
            self.rate_per_s,
            count,
            Random(f"arrivals {seed}"),  # noqa: S311
        )
        services_s = queue_simulation.with_spread(
            self.mean_s,
            self.variation,
            count,
            Random(f"services {seed}"),  # noqa: S311
        )
        return queue_simulation.simulate(arrivals_s, services_s, self.slots)


def at_load(
    load: float, variation: float, slots: int, mean_s: float
) -> Choice:
    """The rate at which requests need `load` per cent of the slots."""
    return Choice(load / 100 * slots / mean_s, mean_s, variation, slots)


def show(mean_s: float) -> None:
    """Display the controls, and a table where there is no kernel."""
    from IPython.display import display

    made = form(mean_s)._repr_mimebundle_()
    data = dict(made[0] if isinstance(made, tuple) else made)
    data["text/plain"] = tables.as_text(rows(mean_s))
    data["text/html"] = tables.as_html(rows(mean_s))
    display(data, raw=True)


def form(mean_s: float) -> Any:
    """Rate, spread and slots, with what they amount to.

    `mean_s` is the mean service time; the rate goes from a tenth of one
    slot's capacity to a little over that of MOST_SLOTS.
    """
    import ipywidgets

    wide = {
        "style": {"description_width": "10em"},
        "layout": {"width": "34em"},
    }
    rates = [
        (f"{share / mean_s:.2f} requests/s", share / mean_s)
        for share in (step / 20 for step in range(2, 20 * MOST_SLOTS + 3))
    ]
    rate = ipywidgets.SelectionSlider(
        options=rates, value=rates[14][1], description="rate", **wide
    )
    spread = ipywidgets.FloatSlider(
        value=1.0,
        min=0.0,
        max=3.0,
        step=0.25,
        description="spread of services",
        continuous_update=False,
        **wide,
    )
    slots = ipywidgets.IntSlider(
        value=1, min=1, max=MOST_SLOTS, description="slots", **wide
    )
    said = ipywidgets.HTML()

    def update(_: object = None) -> None:
        said.value = result(
            Choice(rate.value, mean_s, spread.value, slots.value)
        )

    for control in (rate, spread, slots):
        control.observe(update, "value")
    update()
    return ipywidgets.VBox([rate, spread, slots, said])


def result(choice: Choice) -> str:
    """What a choice amounts to: a table, and the line over time."""
    wait_s = choice.wait_s
    head = (f"{100 * choice.load:.0f} % load", choice.formula)
    if wait_s is None:
        found = [
            ("mean wait", "none: the line grows as long as requests come"),
        ]
    else:
        inside = queueing.in_system(choice.rate_per_s, wait_s + choice.mean_s)
        found = [
            ("mean wait by formula", _in_words(wait_s, choice.mean_s)),
            ("simulated", _simulated(choice)),
            ("in the system, by Little's law", f"{inside:.2f}"),
        ]
    return tables.as_html([head, *found]) + drawing(choice)


def _in_words(wait_s: float, mean_s: float) -> str:
    ms, services = _figure(1e3 * wait_s), _figure(wait_s / mean_s)
    return f"{ms} ms, {services} service times"


def _figure(value: float) -> str:
    """Three digits or more, so that a short wait is not shown as none."""
    if 0 < value < LEAST:
        return f"under {LEAST}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _simulated(choice: Choice) -> str:
    """The mean of several runs, and how far their means lie apart."""
    means = []
    for seed in range(RUNS):
        counted = choice.simulated(COUNT, seed)[COUNT // 4 :]
        means.append(fmean(visit.wait_s for visit in counted))
    middle, low, high = (
        _figure(1e3 * wait_s)
        for wait_s in (fmean(means), min(means), max(means))
    )
    short = ", too short for the long run" if choice.load > NEAR_FULL else ""
    return f"{middle} ms; {RUNS} runs from {low} to {high}{short}"


def rows(mean_s: float) -> list[tuple[str, ...]]:
    """Figures at some settings, for a reader without a kernel."""
    choices = [
        at_load(load, variation, slots, mean_s)
        for slots in (1, 2)
        for variation in VARIATIONS
        for load in LOADS
    ]
    return [COLUMNS, *map(_row, choices)]


def _row(choice: Choice) -> tuple[str, ...]:
    wait_s = choice.wait_s
    waits = ("grows", "grows")
    if wait_s is not None:
        waits = (_figure(1e3 * wait_s), _figure(wait_s / choice.mean_s))
    return (
        f"{100 * choice.load:.0f} %",
        f"{choice.variation:g}",
        f"{choice.slots}",
        f"{choice.rate_per_s:.2f}",
        *waits,
    )


# Pictures -------------------------------------------------------------------


def over_time(choice: Choice) -> tuple[list[float], list[int]]:
    """Moments in service times, and the number in the system from each on.

    One simulated run from an empty system, cut at SHOWN service times.
    """
    end_s = SHOWN * choice.mean_s
    count = max(1, round(1.5 * choice.rate_per_s * end_s))
    visits = choice.simulated(count, PICTURE_SEED)
    events = [(v.arrival_s, 1) for v in visits]
    events += [(v.end_s, -1) for v in visits]
    moments, numbers = [0.0], [0]
    # An arrival stands before an end of the same moment, its own perhaps.
    for moment_s, change in sorted(events, key=lambda e: (e[0], -e[1])):
        if moment_s > end_s:
            break
        moments.append(moment_s / choice.mean_s)
        numbers.append(numbers[-1] + change)
    return [*moments, float(SHOWN)], [*numbers, numbers[-1]]


def drawing(choice: Choice, width: int = 480, height: int = 120) -> str:
    """The number in the system over time, as SVG."""
    moments, numbers = over_time(choice)
    top = TOP * math.ceil(max(1, *numbers) / TOP)
    points, before = [], 0
    for moment, number in zip(moments, numbers, strict=True):
        x = width * moment / SHOWN
        points += [
            f"{x:.1f},{height - height * n / top:.1f}"
            for n in (before, number)
        ]
        before = number
    said = (
        f"Number in the system over {SHOWN} service times, simulated: at"
        f" most {max(numbers)}; the picture's top is {top}."
    )
    marks = (
        f'<text x="2" y="12" font-size="12">{top}</text>'
        f'<text x="2" y="{height - 3}" font-size="12">0</text>'
    )
    return (
        f'<svg width="{width}" height="{height}" role="img"'
        f' aria-label="{said}" style="background:#f4f4f4">'
        f'<polyline fill="none" stroke="#5790fc" points="{" ".join(points)}"/>'
        f"{marks}</svg><div>{said}</div>"
    )


def picture(mean_s: float) -> Axes:
    """The same at the settings of PICTURED, one below the other."""
    from labkit import queue_plots

    panels = {}
    for setting in PICTURED:
        choice = at_load(*setting, mean_s)
        slots = "one slot" if choice.slots == 1 else f"{choice.slots} slots"
        load, spread = 100 * choice.load, choice.variation
        name = f"{slots}, {load:.0f} % load, spread {spread:g}"
        panels[name] = over_time(choice)
    return queue_plots.stacked(
        panels, "The number in the system", "time (service times)"
    )
