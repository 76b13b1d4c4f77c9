"""What a notebook talks to: the card, predictions, numbers, comparison."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit import (
    baselines,
    checkpoints,
    comparison,
    comparison_table,
    course,
    machine,
    predictions,
    records,
    results,
    tables,
)
from labkit.baselines import Baseline
from labkit.errors import LabError
from labkit.observations import Observation
from labkit.predictions import Question
from labkit.progress import HEADLESS
from labkit.results import Model, Protocol, Quantity, Result


class Lesson:
    """One lesson while it runs.

    Making it sets the number of threads that PyTorch uses, to two or to the
    cores that there are, and shows a card. Raises LabError when the model
    is not ready.
    """

    def __init__(self, number: str, model: str = checkpoints.DEFAULT) -> None:
        machine.wait_briefly(os.environ)
        import torch

        self.number = number
        self.checkpoint = checkpoints.find(model)
        checkpoints.require(self.checkpoint)
        self.machine = machine.identify()
        self.software = machine.software()
        self.threads = machine.default_threads()
        # The best so far: a busy machine shows less than it can do.
        self.speed = machine.recent_speed(self.threads)
        self.data = baselines.data_folder()
        self._started = datetime.now(UTC)
        self._quantities: dict[str, Quantity] = {}
        self._predictions: dict[str, float] = {}
        self._theory: dict[str, dict[str, float]] = {}
        torch.set_num_threads(self.threads)
        _keep_loopback_direct(os.environ)
        self.table(("this run", ""), self._card())

    def _card(self) -> list[tuple[str, str]]:
        here, speed = self.machine, self.speed
        versions = ", ".join(f"{k} {v}" for k, v in self.software.items())
        beside = [
            baseline
            for baseline in baselines.load(self.data, self.number)
            if isinstance(baseline, Baseline)
        ]
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
            ("to compare with", "; ".join(b.name for b in beside) or "none"),
        ]

    def predict(self, questions: Mapping[str, tuple[str, str]]) -> None:
        """Ask for numbers before they are measured.

        `questions` maps the name of a quantity to a question and a unit.
        An answer is kept between kernels; without a person nothing is
        asked, and "no prediction" is shown.
        """
        from IPython.display import display

        asked = {n: Question(n, *rest) for n, rest in questions.items()}
        if not os.environ.get(HEADLESS):
            self._predictions = predictions.load(self._results)
        known = self._predictions
        form = predictions.form(asked, known, self._keep_prediction)
        made = form._repr_mimebundle_()
        data = dict(made[0] if isinstance(made, tuple) else made)
        data["text/plain"] = predictions.as_text(asked, known)
        data["text/html"] = predictions.as_html(asked, known)
        display(data, raw=True)

    def _keep_prediction(self, name: str, number: float | None) -> None:
        if number is None:
            self._predictions.pop(name, None)
        else:
            self._predictions[name] = number
        predictions.save(self._results, self._predictions)

    @property
    def _results(self) -> Path:
        return course.results_folder() / self.number

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
        self._show(Quantity(made))

    def sample(self, name: str, values: Sequence[float], unit: str) -> None:
        """Record the median of several observations, and keep them all."""
        self._show(Quantity.median(name, unit, values))

    def ratio(
        self,
        name: str,
        above: Sequence[float],
        below: Sequence[float],
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        """Record a ratio of medians with its range on any machine."""
        self._show(Quantity.ratio(name, above, below, low, high))

    def _show(self, quantity: Quantity) -> None:
        from IPython.display import display

        self._quantities[quantity.record.name] = quantity
        display(records.bundle(quantity.record), raw=True)

    def check(self, statement: str, holds: bool) -> None:
        """Say that a statement holds, or stop the notebook here."""
        if not holds:
            raise LabError(
                f"This does not hold: {statement}. Run the cells above again "
                "in order; if it stays so, compare the versions on the card "
                "with the committed notebook's."
            )
        print(f"holds: {statement}")

    def theory(self, name: str, values: Mapping[str, float]) -> None:
        """What a formula gives for quantities, by their names.

        `name` says which formula; the comparison shows it beside the
        baselines.
        """
        self._theory[name] = dict(values)

    def reported(self, name: str) -> float:
        """The figure that a published report gives for a quantity.

        LabError when no report has it.
        """
        for baseline in baselines.load(self.data, self.number):
            if isinstance(baseline, Baseline) and baseline.kind == "reported":
                for quantity in baseline.quantities:
                    if quantity.record.name == name:
                        return float(quantity.record.value)
        raise LabError(f"No published report has {name!r}: check the name.")

    def compare(
        self,
        protocol: Protocol,
        caption: str,
        observations: Sequence[Observation] = (),
    ) -> None:
        """Save this run's result and set it beside all there is to compare.

        Shows one table and one chart: predictions, yours with its spread,
        baselines, theory. What was recorded so far is in it.
        """
        from labkit import plots

        result = self._result(protocol, observations)
        results.save(result, course.results_folder())
        made = comparison.compare(
            result, result.predictions, baselines.beside(result, self.data)
        )
        self.table(
            comparison_table.COLUMNS,
            [list(r.values()) for r in comparison_table.as_rows(made)],
            comparison_table.legend(made),
        )
        plots.show(
            plots.comparison(made),
            caption,
            "One row for each quantity that has something beside it, on a "
            "logarithmic scale: the spread of this run and the values of the "
            "table, each divided by this run's value.",
        )

    def _result(
        self, protocol: Protocol, observations: Sequence[Observation]
    ) -> Result:
        return Result(
            lesson=self.number,
            started_utc=results.timestamp(self._started),
            machine=self.machine,
            software=self.software,
            model=self._model(),
            protocol=protocol,
            observations=tuple(observations),
            quantities=tuple(self._quantities.values()),
            predictions=dict(self._predictions),
            theory=self._theory,
        )

    def _model(self) -> Model:
        pin = self.checkpoint.pins["model.safetensors"]
        return Model(
            name=self.checkpoint.name,
            source=self.checkpoint.source.address,
            revision=self.checkpoint.revision,
            sha256=pin.sha256,
            dtype="float32",
        )

    def exercises(self) -> None:
        """Show the exercises of this lesson: title, points, minutes."""
        from labkit.exercises.source import exercises_of, load_source

        source = load_source(self.number, course.folder())
        self.table(
            ("exercise", "points", "minutes"),
            [
                (e.title, f"{e.points:g}", f"{e.minutes or ''}")
                for e in exercises_of(source)
            ],
        )

    def peak_rss_bytes(self) -> int:
        """Most memory that this notebook's process ever held."""
        return machine.peak_rss_bytes()

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        below: Sequence[str] = (),
    ) -> None:
        """Show rows of text as a table, with lines of text below it."""
        from IPython.display import display

        lines = [tuple(header), *(tuple(row) for row in rows)]
        page = tables.as_html(lines) + "".join(
            f"<div>{html.escape(line)}</div>" for line in below
        )
        plain = "\n".join([tables.as_text(lines), *below])
        display({"text/html": page, "text/plain": plain}, raw=True)


def _keep_loopback_direct(environment: MutableMapping[str, str]) -> None:
    """Tell HTTP clients to ask this machine without a proxy between."""
    for name in ("NO_PROXY", "no_proxy"):
        known = environment.get(name, "")
        if "127.0.0.1" not in known:
            here = (known, "127.0.0.1", "localhost")
            environment[name] = ",".join(part for part in here if part)
