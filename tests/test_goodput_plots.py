"""The charts of lesson 10: what is drawn where."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes

from labkit import goodput_plots, plots
from labkit.loadtest.records import Arrival, Record
from labkit.loadtest.sweep import Count, Probe, Search

MS = 1_000_000


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def labels(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def line(axes: Axes, label: str) -> tuple[list[float], list[float]]:
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return list(found.get_xdata()), list(found.get_ydata())  # type: ignore[arg-type]  # matplotlib's data are arrays


def test_goodput_over_the_rate_with_its_maximum() -> None:
    measured = {"answered": {4.0: 4.0, 8.0: 6.0}, "good": {8.0: 1.0, 4.0: 3.5}}
    simulated = {"good": {4.0: [3.0, 3.4, 3.8], 8.0: [1.0, 1.2, 1.4]}}
    axes = goodput_plots.over_rate(measured, simulated, 6.0, "Rates")
    assert labels(axes) == ["answered", "good", "capacity"]
    assert line(axes, "good") == ([4.0, 8.0], [3.5, 1.0])
    assert line(axes, "capacity")[0] == [6.0, 6.0]
    rings = [
        (list(each.get_xdata()), list(each.get_ydata()))  # type: ignore[arg-type]  # matplotlib's data are arrays
        for each in axes.lines
        if each.get_markersize() == 15
    ]
    assert rings == [([8.0], [6.0]), ([4.0], [3.5])]
    medians = [list(each.get_ydata()) for each in axes.lines]  # type: ignore[arg-type]  # matplotlib's data are arrays
    assert [3.4, 1.2] in medians
    assert axes.get_ylim()[0] == 0


def test_requests_in_a_server_over_time() -> None:
    spans: dict[str, list[goodput_plots.Span]] = {
        "calm": [(0.0, 1.0), (0.5, 2.0)],
        "storm": [(1.0, None)],
    }
    axes = goodput_plots.in_server(spans, "Storm", "time (s)")
    assert line(axes, "calm") == ([0.0, 0.5, 1.0, 2.0], [1, 2, 1, 0])
    assert line(axes, "storm") == ([1.0], [1])
    assert labels(axes) == ["calm", "storm"]


@pytest.fixture
def search() -> Search:
    probes = (
        Probe(4.0, (Count(10, 10), Count(10, 10))),
        Probe(6.0, (Count(9, 10), Count(10, 10))),
        Probe(8.0, (Count(1, 10), Count(2, 10))),
    )
    return Search(0.9, 0.95, probes)


def test_a_search_with_its_ends(search: Search) -> None:
    axes = goodput_plots.search(search, {"M/D/1": 5.5}, "Found", "rate")
    names = ("clearly meets it", "neither", "clearly misses it")
    for label, container in zip(names, axes.containers, strict=True):
        assert container.get_label() == label
    seen = [list(c.lines[0].get_xdata()) for c in axes.containers]  # type: ignore[attr-defined]  # error bars have lines
    assert seen == [[4.0], [6.0], [8.0]]
    (found,) = [p for p in axes.patches if p.get_label() == "found"]
    assert found.get_extents().transformed(
        axes.transData.inverted()
    ).intervalx.tolist() == pytest.approx([4.0, 8.0])
    assert line(axes, "goal")[1] == [0.9, 0.9]
    assert line(axes, "M/D/1")[0] == [5.5, 5.5]


def test_a_search_without_an_end_shades_nothing(search: Search) -> None:
    open_ended = Search(0.9, 0.95, search.probes[:2])
    axes = goodput_plots.search(open_ended, {}, "Found", "rate")
    assert "found" not in labels(axes)


def record(name: str, ttft_ms: int | None) -> Record:
    if ttft_ms is None:
        return Record(name, 0, MS, failure="timeout")
    token = Arrival(ttft_ms * MS, "token", (1,), 1)
    return Record(name, 0, ttft_ms * MS, arrivals=(token,), new_tokens=1)


def test_failures_keep_a_line_below_one() -> None:
    runs = {
        5.0: [record("a", 200), record("b", None), record("c", 100)],
        2.0: [record("a", 50)],
    }
    axes = goodput_plots.over_objective(runs, 150.0, "Any promise")
    assert labels(axes) == [
        "2.0 requests/s",
        "5.0 requests/s",
        "this lesson's",
    ]
    times, shares = line(axes, "5.0 requests/s")
    assert times == [0.0, 100.0, 200.0]
    assert shares == pytest.approx([0, 1 / 3, 2 / 3])


def test_they_can_be_drawn(search: Search) -> None:
    axes = goodput_plots.search(search, {}, "Found", "rate")
    assert plots.png(plots.figure_of(axes)).startswith(b"\x89PNG")
