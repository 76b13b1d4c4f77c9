from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from labkit import comparison, comparison_table
from labkit.baselines import Baseline, Refused, pooled
from labkit.comparison import Comparison, Row
from labkit.comparison_table import as_rows, as_text
from labkit.records import Record
from labkit.results import Model, Quantity, Result
from labkit.stats import Interval

MakeResult = Callable[..., Result]
TIMES = "generation_s (128 in, 8 out)"
RATIO = "time_ratio (8x output)"


def measured(result: Result, **changes: Any) -> Baseline:
    """A reference run made of one result."""
    made = Baseline(
        name="another machine",
        kind="measured",
        machine="Other CPU",
        model=result.model,
        protocol=result.protocol,
        quantities=pooled([result]),
    )
    return replace(made, **changes)


def reported(result: Result, *records: Record, **changes: Any) -> Baseline:
    """A published report of a few figures, of the same model."""
    made = Baseline(
        name="a report",
        kind="reported",
        machine="some machine",
        model=replace(result.model, sha256=None),
        protocol=replace(result.protocol, seed=None, prompt_sha256=None),
        quantities=tuple(map(Quantity, records)),
    )
    return replace(made, **changes)


def row_of(made: Comparison, name: str) -> Row:
    (row,) = [row for row in made.rows if row.name == name]
    return row


def test_each_quantity_shows_prediction_result_and_baseline(
    make_result: MakeResult,
) -> None:
    mine, other = make_result(0), make_result(1, scale=2.0)
    made = comparison.compare(mine, {RATIO: 8.0}, [measured(other)])
    assert [row.name for row in made.rows] == [
        quantity.record.name for quantity in mine.quantities
    ]
    row = row_of(made, TIMES)
    assert row.value == mine.quantities[0].record.value
    assert row.predicted is None
    assert row.spread is not None
    assert row.spread.count == 5
    assert row.interval is not None
    assert row.interval.low <= row.value <= row.interval.high
    (beside,) = row.against
    assert beside.ratio == pytest.approx(0.5, rel=0.05)
    assert beside.ratio is not None
    assert beside.interval is not None
    assert beside.interval.low < beside.ratio < beside.interval.high
    assert beside.low == min(other.quantities[0].samples[0])
    assert row_of(made, RATIO).predicted == 8.0


def test_ratios_of_times_are_divided_with_all_four_samples(
    make_result: MakeResult,
) -> None:
    mine, other = make_result(0), make_result(1, scale=2.0)
    made = comparison.compare(mine, {}, [measured(other)])
    (beside,) = row_of(made, RATIO).against
    assert beside.ratio == pytest.approx(1, rel=0.05)
    assert beside.interval is not None
    assert beside.interval.low < 1 < beside.interval.high


def test_a_reported_figure_is_divided_by_as_it_stands(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    made = comparison.compare(
        mine,
        {},
        [
            reported(
                mine,
                Record(TIMES, 2.4, "s"),
                Record(RATIO, 5.37),
                ranges={TIMES: (2.0, 3.0)},
            )
        ],
    )
    row = row_of(made, TIMES)
    (beside,) = row.against
    assert beside.ratio == row.value / 2.4
    assert row.interval is not None
    assert beside.interval is not None
    assert beside.interval.low == row.interval.low / 2.4
    assert beside.interval.high == row.interval.high / 2.4
    assert (beside.low, beside.high) == (2.0, 3.0)
    (ratio,) = row_of(made, RATIO).against
    assert ratio.value == 5.37


def test_what_may_be_expected_is_said_for_each_quantity(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    made = comparison.compare(mine, {}, [measured(make_result(1))])
    said = {row.name: (row.expected, row.verdict) for row in made.rows}
    assert said[TIMES] == ("will not match", "")
    assert said[RATIO] == ("should be 4 to 7.5", "inside")
    assert said["new_ids"] == ("must match", "matches")
    assert said["logit"] == ("must match", "matches")
    assert said["load_s"] == ("will not match", "")


@pytest.mark.parametrize(
    ("low", "high", "expected", "verdict"),
    [
        (4, 7.5, "should be 4 to 7.5", "inside"),
        (6, 7.5, "should be 6 to 7.5", "outside"),
        (1, 4, "should be 1 to 4", "outside"),
        (4, None, "should be 4 or more", "inside"),
        (None, 4, "should be 4 or less", "outside"),
        (None, 6, "should be 6 or less", "inside"),
    ],
)
def test_a_ratio_is_judged_by_its_range(
    make_result: MakeResult,
    low: float | None,
    high: float | None,
    expected: str,
    verdict: str,
) -> None:
    quantity = Quantity.ratio("r", [5.0, 5.1, 4.9], [1.0, 1.0, 1.0], low, high)
    made = comparison.compare(make_result(quantities=(quantity,)), {}, [])
    assert (made.rows[0].expected, made.rows[0].verdict) == (expected, verdict)


@pytest.mark.parametrize(("low", "high"), [(3.0, 9.0), (1.0, 3.0)])
def test_the_bounds_belong_to_the_range(
    make_result: MakeResult, low: float, high: float
) -> None:
    quantity = Quantity.ratio("r", [6.0, 6.0], [2.0, 2.0], low, high)
    made = comparison.compare(make_result(quantities=(quantity,)), {}, [])
    assert made.rows[0].interval == Interval(3.0, 3.0, 0.95)
    assert made.rows[0].verdict == "inside"


@pytest.mark.parametrize(
    ("low", "side"), [(4.95, "inside"), (5.05, "outside")]
)
def test_a_ratio_near_its_bound_is_not_judged_firmly(
    make_result: MakeResult, low: float, side: str
) -> None:
    quantity = Quantity.ratio("r", [5.0, 5.1, 4.9], [1.0, 1.0, 1.0], low, 9)
    made = comparison.compare(make_result(quantities=(quantity,)), {}, [])
    assert made.rows[0].verdict == (
        f"{side}, but its interval reaches over the bound"
    )


def test_other_tokens_differ_and_the_place_is_told(
    make_result: MakeResult,
) -> None:
    other = make_result(
        quantities=(
            Quantity(Record("new_ids", [260, 99], rule="exact")),
            Quantity(Record("logit", 12.6, rule="close", rtol=1e-4)),
        )
    )
    made = comparison.compare(make_result(), {}, [measured(other)])
    row = row_of(made, "new_ids")
    assert row.verdict == "differs from A"
    assert row.against[0].agrees is False
    assert "first difference at [1]" in row.against[0].note
    assert row_of(made, "logit").verdict == "differs from A"


@pytest.mark.parametrize(
    ("model", "mark"),
    [
        (
            Model("larger", "x", "1", "ef" * 32, "float32"),
            "another model: larger",
        ),
        (Model("tiny", "x", "1", "ef" * 32, "float32"), "another model"),
        (Model("other", None, None, None, "float32"), "another model: other"),
        (
            Model("tiny", None, None, None, "bfloat16"),
            "another dtype: bfloat16",
        ),
    ],
)
def test_another_model_or_dtype_is_shown_marked_and_not_judged(
    make_result: MakeResult, model: Model, mark: str
) -> None:
    other = make_result(
        quantities=(Quantity(Record("new_ids", [1], rule="exact")),)
    )
    made = comparison.compare(
        make_result(), {}, [measured(other, model=model)]
    )
    assert made.refused == ()
    (shown,) = made.baselines
    assert shown.key == "A*"
    assert any(mark in said for said in shown.marks)
    row = row_of(made, "new_ids")
    assert row.verdict == "no baseline of this model"
    assert row.against[0].agrees is None
    assert row.against[0].value == [1]


def test_the_same_model_is_not_marked(make_result: MakeResult) -> None:
    mine = make_result()
    renamed = replace(mine.model, name="another name")
    unknown = replace(mine.model, sha256=None)
    for model in (mine.model, renamed, unknown):
        made = comparison.compare(mine, {}, [measured(mine, model=model)])
        assert made.baselines[0].key == "A"
        assert made.baselines[0].marks == ()


def test_other_threads_and_repeats_are_marked(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    theirs = replace(mine.protocol, threads=8, repeats=9, warmups=1)
    made = comparison.compare(mine, {}, [measured(mine, protocol=theirs)])
    assert made.baselines[0].marks == (
        "threads: 8, yours 2",
        "warmups: 1, yours 2",
        "repeats: 9, yours 5",
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "other"}, "its protocol is 'other'"),
        ({"order": "blocked"}, "block by block"),
        ({"warmups": 0}, "did not warm up"),
        ({"prompt_sha256": "00" * 32}, "another text"),
    ],
)
def test_another_protocol_is_refused_with_the_reason(
    make_result: MakeResult, change: dict[str, Any], reason: str
) -> None:
    mine = make_result()
    baseline = measured(mine, protocol=replace(mine.protocol, **change))
    made = comparison.compare(mine, {}, [baseline])
    assert made.baselines == ()
    assert all(row.against == () for row in made.rows)
    (refused,) = made.refused
    assert refused.name == baseline.name
    assert reason in refused.reason


@pytest.mark.parametrize(
    "change",
    [
        {"order": "shuffled"},
        {"order": None},
        {"warmups": None},
        {"prompt_sha256": None},
        {"seed": 5},
    ],
)
def test_what_a_source_does_not_tell_is_no_reason(
    make_result: MakeResult, change: dict[str, Any]
) -> None:
    mine = make_result()
    baseline = measured(mine, protocol=replace(mine.protocol, **change))
    assert comparison.compare(mine, {}, [baseline]).refused == ()


def test_a_baseline_without_a_common_quantity_is_refused(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    made = comparison.compare(mine, {}, [reported(mine, Record("x", 1))])
    assert made.refused[0].reason == "it has none of these quantities"


def test_what_was_refused_on_loading_stays_in_sight(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    gone = Refused("broken", "version 7")
    made = comparison.compare(mine, {}, [gone, measured(mine)])
    assert made.refused == (gone,)
    assert made.baselines[0].key == "A"
    assert "not used: broken: version 7" in as_text(made)


def test_another_unit_is_not_divided(make_result: MakeResult) -> None:
    mine = make_result()
    made = comparison.compare(
        mine, {}, [reported(mine, Record(TIMES, 1400.0, "ms"))]
    )
    (beside,) = row_of(made, TIMES).against
    assert beside.ratio is None
    assert beside.interval is None
    assert beside.note == "in ms"


@pytest.mark.parametrize("value", [0, None, "fast", [1.0], True])
def test_what_cannot_be_divided_by_gives_no_ratio(
    make_result: MakeResult, value: Any
) -> None:
    mine = make_result()
    made = comparison.compare(
        mine, {}, [reported(mine, Record(TIMES, value, "s"))]
    )
    (beside,) = row_of(made, TIMES).against
    assert beside.ratio is None
    assert beside.interval is None


def test_single_readings_have_a_ratio_without_an_interval(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    made = comparison.compare(
        mine, {}, [reported(mine, Record("load_s", 1.8, "s"))]
    )
    (beside,) = row_of(made, "load_s").against
    assert (beside.ratio, beside.interval) == (0.5, None)
    made = comparison.compare(mine, {}, [measured(mine)])
    assert row_of(made, "load_s").against[0].interval is None


def test_noise_and_unused_predictions_are_told(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    slow = [
        replace(run, seconds=run.seconds * run.repeat)
        for run in mine.observations
    ]
    noisy = replace(mine, observations=tuple(slow))
    made = comparison.compare(noisy, {"speed of light": 3.0}, [])
    assert made.noise
    assert made.unused == ("speed of light",)
    text = as_text(made)
    assert "too noisy to quote: " in text
    assert "predicted but not measured: speed of light" in text
    assert comparison.compare(mine, {}, []).noise == ()


def test_each_baseline_has_a_row_and_a_key(make_result: MakeResult) -> None:
    mine = make_result()
    pair = [measured(mine), reported(mine, Record(TIMES, 2.4, "s"))]
    made = comparison.compare(mine, {TIMES: 1.0}, pair)
    rows = as_rows(made)
    assert all(list(row) == list(comparison_table.COLUMNS) for row in rows)
    first, second = rows[:2]
    assert first["quantity"] == f"{TIMES} (s)"
    assert first["predicted"] == "1"
    assert first["on any machine"] == "will not match"
    assert (first["baseline"], second["baseline"]) == ("A", "B")
    assert second["quantity"] == second["yours"] == ""
    assert second["its value"] == "2.4"
    assert len(rows) == len(mine.quantities) + 1


def test_many_baselines_keep_distinct_keys(make_result: MakeResult) -> None:
    mine = make_result(quantities=make_result().quantities[3:4])
    made = comparison.compare(mine, {}, [measured(mine)] * 30)
    keys = [shown.key for shown in made.baselines]
    assert keys[:2] == ["A", "B"]
    assert keys[25:28] == ["Z", "A2", "B2"]
    assert len(set(keys)) == 30


def test_the_text_is_narrow_and_ends_with_the_legend(
    make_result: MakeResult,
) -> None:
    mine = make_result()
    made = comparison.compare(mine, {RATIO: 8.0}, [measured(mine)])
    text = as_text(made)
    lines = text.splitlines()
    start = lines.index("    predicted  8")
    assert lines[start - 1].startswith(f"{RATIO}: ")
    assert lines[start + 1].startswith("    A          ")
    assert lines[start + 2].startswith("    elsewhere  should be")
    table = text[: text.index("\nA: ")]
    assert max(map(len, table.splitlines())) <= 79
    assert [line for line in lines if line.startswith("A: ")]


def test_without_baselines_the_table_still_shows_the_result(
    make_result: MakeResult,
) -> None:
    made = comparison.compare(make_result(), {}, [])
    rows = as_rows(made)
    assert len(rows) == 6
    assert rows[0]["baseline"] == ""
    assert "middle half" in rows[0]["its spread"]
    assert rows[2]["its spread"].startswith("[")


def test_ranges_stand_beside_the_value(make_result: MakeResult) -> None:
    mine = make_result()
    ranged = reported(
        mine,
        Record(TIMES, 2.4, "s"),
        Record(RATIO, 5.37),
        ranges={TIMES: (2.0, 3.0)},
    )
    made = as_rows(comparison.compare(mine, {}, [ranged]))
    # What has something beside it comes first.
    assert made[0]["its value"] == "2.4 (2 to 3)"
    assert made[1]["its value"] == "5.37"
    assert all(row["its value"] == "" for row in made[2:])


def test_one_observation_has_no_spread_to_show(
    make_result: MakeResult,
) -> None:
    one = Quantity.median("t", "s", [1.5])
    equal = Quantity.median("u", "s", [1.5, 1.5])
    mine = make_result(quantities=(one, equal))
    rows = as_rows(comparison.compare(mine, {}, [measured(mine)]))
    assert rows[0]["its spread"] == ""
    assert rows[0]["its value"] == "1.5"
    assert rows[1]["its spread"] == "middle half 1.5 to 1.5, n = 2"


def test_what_has_no_ratio_is_said_to_have_none(
    make_result: MakeResult,
) -> None:
    levels = Quantity(Record("levels", [1.0, 2.0], "MiB"))
    mine = make_result(quantities=(levels,))
    text = as_text(comparison.compare(mine, {}, [measured(mine)]))
    assert "levels: [1, 2] MiB" in text
    assert "yours / its" not in text


def test_long_values_are_counted_in_the_table() -> None:
    assert comparison_table.figure([1, 2, 3, 4]) == "[1, 2, 3, 4]"
    assert comparison_table.figure([1, 2, 3, 4, 5]) == "5 values"
    assert comparison_table.figure(None) == ""
    assert comparison_table.figure(1234567) == "1,234,567"
    assert comparison_table.figure(9999) == "9999"
    assert comparison_table.figure([12345, 6]) == "[12345, 6]"
    assert comparison_table.figure([12345.6, 0.5]) == "[12346, 0.5]"
    assert comparison_table.figure(0.123456) == "0.1235"
    assert comparison_table.figure(10640.2) == "10,640"
    assert comparison_table.figure(9999.7) == "10,000"
    assert comparison_table.figure(-12345.6) == "-12,346"


def test_the_json_is_plain(make_result: MakeResult) -> None:
    mine = make_result()
    made = comparison.compare(
        mine, {RATIO: 8.0}, [measured(mine), Refused("x", "y")]
    )
    document = comparison_table.as_json(made)
    text = json.dumps(document, allow_nan=False)
    back = json.loads(text)
    assert back["rows"][2]["predicted"] == 8.0
    assert back["refused"] == [{"name": "x", "reason": "y"}]
    assert back["rows"][0]["against"][0]["ratio"] == 1.0


def test_comparing_changes_nothing_and_repeats_exactly(
    make_result: MakeResult,
) -> None:
    mine, other = make_result(0), measured(make_result(1))
    first = comparison.compare(mine, {RATIO: 8.0}, [other])
    assert comparison.compare(mine, {RATIO: 8.0}, [other]) == first
    assert mine == make_result(0)
