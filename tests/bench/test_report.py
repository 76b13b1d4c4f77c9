"""Tables and goals of the decode bench, from observations made up here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from labkit import documents
from labkit.errors import LabError
from labkit.machine import Machine
from labkit.observations import Observation
from labkit.results import Model, Protocol

ROUNDS = 3
NEW = 5
IDS = (4, 8, 15, 16, 23)
MAIN = {
    "labkit FP32": (1, 0.10, 1.0),
    "labkit BF16": (1, 0.08, 0.5),
    "transformers": (1, 0.20, 2.0),
    "llama.cpp": (1, 0.30, 0.8),
    "labkit FP32, batch 4": (4, 0.4, 2.0),
    "labkit BF16, batch 8": (8, 0.6, 1.0),
}
"""Sequences, seconds of the prefill, seconds of the rest."""


READ = 1e12
"""Bytes/s of the first round."""
ALONE = {
    (1, "labkit.fused.linear"): (0.2, 400.0),
    (1, "F.linear"): (0.8, 100.0),
    (128, "labkit.fused.linear"): (0.05, 1600.0),
}
"""Seconds and bytes/s of the matrices alone, by rows and product."""


def seen(condition: str, repeat: int, value: object) -> Observation:
    return Observation(condition, repeat, 1, 1.0, 0.0, value=value)


def observations(conditions: dict[str, tuple[int, float, float]]) -> Any:
    for name, (_, prefill, decode) in conditions.items():
        for n in range(1, ROUNDS + 1):
            # The machine slows down: all times of a round alike.
            value = {"prefill_s": n * prefill, "decode_s": n * decode}
            yield seen(name, n, value)
    for n in range(1, ROUNDS + 1):
        yield seen("machine", n, {"read_bytes_per_s": READ / n})
        for (rows, product), (seconds, speed) in ALONE.items():
            name = f"labkit FP32, matrices alone, {rows} rows by {product}"
            value = {"pass_s": n * seconds, "bytes_per_s": speed * 1e9 / n}
            yield seen(name, n, value)
        name = "labkit BF16, matrices alone, 8 rows by labkit.fused.linear"
        yield seen(name, n, {"pass_s": 0.1, "bytes_per_s": 1.0})


@pytest.fixture
def make(reports: Any) -> Callable[..., Any]:
    """Makes a report; `without` leaves a contender out."""

    def made(without: str = "", **changes: Any) -> Any:
        kept = {name: v for name, v in MAIN.items() if name != without}
        report = reports.Report(
            started_utc="2026-01-31T12:00:00Z",
            machine=Machine("a CPU", 2, 2**32, "Linux", "x86_64"),
            software={"torch": "2"},
            model=Model("m", None, None, None, "float32"),
            protocol=Protocol(
                "p", tuple(kept), 1, ROUNDS, 0, "interleaved", 2, None
            ),
            environment={},
            prompt_tokens=128,
            new_tokens=NEW,
            weight_bytes={
                "labkit FP32": 90 * 10**9,
                "labkit BF16": 45 * 10**9,
            },
            cache_bytes={"labkit FP32": 1e10, "labkit BF16": 5e9},
            tokens={
                name: (IDS,) * count for name, (count, *_) in kept.items()
            },
            missing=(),
            observations=tuple(observations(kept)),
        )
        return replace(report, **changes)

    return made


def test_decode_counts_no_first_token(reports: Any, make: Any) -> None:
    """Four of five tokens take a step; the first comes from the prefill."""
    assert reports.decode_rates(make(), "labkit FP32") == [4.0, 2.0, 4 / 3]


def test_a_batch_counts_all_its_sequences(reports: Any, make: Any) -> None:
    rates = reports.decode_rates(make(), "labkit FP32, batch 4")
    assert rates[0] == 4 * 4 / 2.0


def test_whole_rate_has_the_prefill(reports: Any, make: Any) -> None:
    assert reports.whole_rates(make(), "labkit FP32")[0] == 5 / 1.1


def test_ceiling_is_bandwidth_over_weights_and_cache(
    reports: Any, make: Any
) -> None:
    assert reports.ceilings(make(), "labkit FP32") == [10, 5, 1000 / 3 / 100]
    both = reports.ceilings(make(), "labkit FP32", 2)
    assert both[0] == 2 * 1000 / (90 + 2 * 10)


def test_a_ratio_is_taken_within_a_round(reports: Any) -> None:
    """A machine that slows down leaves it alone."""
    assert reports.paired([8.0, 4.0, 2.0], [4.0, 2.0, 1.0]) == 2.0


def test_what_was_not_measured_has_no_ratio(reports: Any) -> None:
    assert reports.paired([], [1.0]) is None
    assert reports.paired([1.0], []) is None
    assert reports.paired([1.0], [0.0]) is None


@pytest.mark.parametrize("rounds", [1, 3])
def test_other_rounds_are_not_paired(reports: Any, rounds: int) -> None:
    with pytest.raises(LabError, match=f"2 rounds .* with {rounds}"):
        reports.paired([1.0, 2.0], [1.0] * rounds)


@pytest.mark.parametrize(
    ("theirs", "place"),
    [((1, 2, 3), None), ((1, 9, 3), 1), ((1, 2), 2), ((1, 2, 3, 4), 3)],
)
def test_first_difference(
    reports: Any, theirs: tuple[int, ...], place: int | None
) -> None:
    assert reports.first_difference((1, 2, 3), theirs) == place


def test_goals_compare_what_they_name(reports: Any, make: Any) -> None:
    found = {goal.name: goal for goal in reports.goals(make())}
    values = {name: goal.value for name, goal in found.items()}
    assert list(values.values()) == pytest.approx([1, 2, 0.8, 0.4, 3, 8])
    reached = [goal.reached for goal in found.values()]
    assert reached == [True, True, False, False, True, True]


def test_a_missed_goal_says_why(reports: Any, make: Any) -> None:
    lines = [
        line
        for line in reports.goal_lines(make())
        if line.startswith("missed") and "llama.cpp" in line
    ]
    assert len(lines) == 1
    assert "of a step of 500.0 ms the matrices alone take 400.0" in lines[0]


def test_without_llama_cpp_its_goals_are_not_measured(
    reports: Any, make: Any
) -> None:
    report = make("llama.cpp", missing=("llama.cpp is left out",))
    lines = list(reports.goal_lines(report))
    assert sum(line.startswith("not measured") for line in lines) == 2
    assert "llama.cpp is left out" in reports.as_text(report)


def test_other_tokens_miss_the_goal_and_name_the_place(
    reports: Any, make: Any
) -> None:
    tokens = dict(make().tokens)
    tokens["llama.cpp"] = ((*IDS[:2], 99, *IDS[3:]),)
    first = next(iter(reports.goals(make(tokens=tokens))))
    assert not first.reached
    assert "llama.cpp: first difference at new token 3" in first.cause
    assert "transformers: identical" in first.cause


def test_the_table_has_a_row_for_each_condition(
    reports: Any, make: Any
) -> None:
    head, *body = reports.rows(make())
    assert all(len(row) == len(head) for row in body)
    assert len(body) == len(MAIN) + 1
    by_name = {(row[0], row[1]): row for row in body}
    assert by_name["labkit BF16", "8"][3] == "16.0"
    assert by_name["labkit BF16", "8"][5] == "2.0"


def test_markdown_is_a_table_of_equal_rows(reports: Any, make: Any) -> None:
    text = reports.as_markdown(make())
    lines = [line for line in text.splitlines() if line.startswith("|")]
    main, alone = lines[: len(MAIN) + 3], lines[len(MAIN) + 3 :]
    assert len(alone) == 4
    for table in (main, alone):
        assert len({line.count("|") for line in table}) == 1


def test_each_product_says_how_fast_it_reads(reports: Any, make: Any) -> None:
    """Second of three rounds: half of the first's speeds."""
    head, *body = reports.matrix_rows(make())
    assert head[2] == "GB/s"
    assert body == [
        ("F.linear", "1600.0", "50.0", "41.7 to 75.0", "10%"),
        ("labkit.fused.linear", "400.0", "200.0", "166.7 to 300.0", "40%"),
    ]
    for text in (reports.as_text(make()), reports.as_markdown(make())):
        assert "41.7 to 75.0" in text
        assert "166.7 to 300.0" in text


def test_the_file_has_how_fast_each_product_reads(
    reports: Any, make: Any
) -> None:
    document = documents.parse(reports.to_text(make()))
    speeds = {
        entry["condition"]: entry["value"]["bytes_per_s"]
        for entry in document["observations"]
        if "1 rows by" in entry["condition"] and entry["repeat"] == 1
    }
    assert speeds == {
        "labkit FP32, matrices alone, 1 rows by labkit.fused.linear": 4e11,
        "labkit FP32, matrices alone, 1 rows by F.linear": 1e11,
    }


def test_a_report_survives_its_file(reports: Any, make: Any) -> None:
    text = reports.to_text(make())
    again = reports.from_json(documents.parse(text))
    assert reports.as_text(again) == reports.as_text(make())
    assert reports.to_text(again) == text


def test_another_schema_is_refused(reports: Any, make: Any) -> None:
    document = documents.parse(reports.to_text(make()))
    with pytest.raises(LabError, match="version"):
        reports.from_json({**document, "version": 2})
