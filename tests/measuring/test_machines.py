"""Every machine's figures in one table, sorted and normalised."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from labkit import baselines, documents, machines, publishing
from labkit.errors import LabError
from labkit.machine import Machine, Speed
from labkit.machines import Everyone, Ranking
from labkit.records import Record
from labkit.results import Protocol, Quantity, Result

MakeResult = Callable[..., Result]
LONG = "generation_s (128 in, 64 out)"
SLOW = Speed(2, 10e9, 1e11)
FAST = Speed(2, 40e9, 4e11)


def put(data: Path, result: Result, speed: Speed | None = None) -> str:
    """A baseline of one run; the machine's name."""
    name = baselines.slug(result)
    folder = data / "baselines" / name
    folder.mkdir(parents=True)
    text = documents.to_text(baselines.to_json("02", [result]))
    (folder / "02.json").write_text(text, encoding="utf-8")
    if speed is not None:
        told = documents.to_text(baselines.speed_to_json(speed))
        (folder / "speed.json").write_text(told, encoding="utf-8")
    return name


def on(cpu: str) -> Machine:
    return Machine(cpu, 2, 2**32, "Linux", "x86_64")


def ranking(found: Everyone, name: str) -> Ranking:
    return next(r for r in found.rankings if r.name == name)


def test_sorted_with_ones_own_among_them(
    tmp_path: Path, make_result: MakeResult
) -> None:
    slow = put(tmp_path, make_result(1, scale=4.0, machine=on("Slow")), SLOW)
    fast = put(tmp_path, make_result(2, machine=on("Fast")), FAST)
    mine = make_result(3, scale=2.0, machine=on("Mine"))
    found = machines.of_lesson("02", tmp_path, mine, Speed(2, 20e9, 2e11))
    entries = ranking(found, LONG).entries
    assert [e.name for e in entries] == [fast, machines.YOURS, slow]
    # Each takes as long as it reads slowly: normalised they are the same.
    made = [machines.normalised(entry, "s") for entry in entries]
    amounts = [each[0] for each in made if each is not None]
    assert amounts == pytest.approx([240, 240, 240], rel=0.05)
    assert {each[1] for each in made if each} == {"GB"}
    assert entries[0].spread is not None
    assert entries[0].spread[0] < 6.0 < entries[0].spread[1]


def test_a_rate_is_the_better_the_higher(
    tmp_path: Path, make_result: MakeResult
) -> None:
    entry = machines.Entry("a", 20.0, None, 10.0)
    assert machines.normalised(entry, "tokens/s") == (2.0, "tokens/GB")
    assert machines.normalised(entry, "ms") == (0.2, "GB")
    assert machines.normalised(entry, "") is None
    unknown = replace(entry, read_gb_per_s=None)
    assert machines.normalised(unknown, "s") is None


def test_what_is_neither_time_nor_ratio_is_left_out(
    tmp_path: Path, make_result: MakeResult
) -> None:
    put(tmp_path, make_result(1, machine=on("A")))
    found = machines.of_lesson("02", tmp_path, None, None)
    names = {each.name for each in found.rankings}
    assert names == {
        LONG,
        "generation_s (128 in, 8 out)",
        "time_ratio (8x output)",
        "load_s",
    }
    (entry,) = ranking(found, LONG).entries
    assert entry.read_gb_per_s is None
    assert "not known" in machines.as_text(found)


def test_what_must_match_everywhere_is_not_ranked(
    tmp_path: Path, make_result: MakeResult
) -> None:
    scripted = Quantity(Record("sentence_ms", 260.0, "ms", rule="exact"))
    kept = Quantity(Record("other_ms", 3.0, "ms"))
    put(tmp_path, make_result(1, quantities=(scripted, kept)))
    found = machines.of_lesson("02", tmp_path, None, None)
    assert {each.name for each in found.rankings} == {"other_ms"}


def test_ones_own_noisy_run_is_marked(
    tmp_path: Path, make_result: MakeResult
) -> None:
    put(tmp_path, make_result(1, machine=on("A")))
    mine = make_result(2, machine=on("Mine"))
    found = machines.of_lesson("02", tmp_path, mine, None)
    assert not any(e.marks for e in ranking(found, LONG).entries)
    # The second half of the session took three times as long.
    half = len(mine.observations) // 2
    slower = [
        replace(seen, seconds=3 * seen.seconds) if place >= half else seen
        for place, seen in enumerate(mine.observations)
    ]
    noisy = replace(mine, observations=tuple(slower))
    found = machines.of_lesson("02", tmp_path, noisy, None)
    marks = {e.name: e.marks for e in ranking(found, LONG).entries}
    assert "too noisy to quote" in marks[machines.YOURS][0]
    assert "a lower ratio is" in machines.as_text(found)


def test_marked_and_refused_as_in_the_comparison(
    tmp_path: Path, make_result: MakeResult
) -> None:
    mine = make_result(0, machine=on("Mine"))
    other = replace(mine.model, dtype="bfloat16")
    put(tmp_path, make_result(1, machine=on("Half"), model=other))
    protocol: Protocol = replace(mine.protocol, name="another")
    left = put(tmp_path, make_result(2, machine=on("X"), protocol=protocol))
    found = machines.of_lesson("02", tmp_path, mine, None)
    marks = [e.marks for e in ranking(found, LONG).entries]
    assert sum(map(bool, marks)) == 1
    assert "bfloat16" in machines.as_text(found)
    (refused,) = found.refused
    assert refused.name == left
    assert "another" in refused.reason


def test_nobody_measured_it(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="run it with"):
        machines.of_lesson("02", tmp_path, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "labkit.speed", "version": 1}',
        '{"schema": "other", "version": 1, "threads": 2,'
        ' "read_bytes_per_s": 1.0, "flop_per_s": 1.0}',
        '{"schema": "labkit.speed", "version": 1, "threads": 2,'
        ' "read_bytes_per_s": 0.0, "flop_per_s": 1.0}',
    ],
)
def test_a_speed_that_cannot_be_used_is_no_speed(
    tmp_path: Path, make_result: MakeResult, text: str
) -> None:
    name = put(tmp_path, make_result(1, machine=on("A")))
    path = tmp_path / "baselines" / name / "speed.json"
    path.write_text(text, encoding="utf-8")
    assert dict(baselines.speeds(tmp_path)) == {}
    assert machines.of_lesson("02", tmp_path, None, None).rankings


def test_publishing_keeps_the_machines_speed(
    tmp_path: Path, make_result: MakeResult
) -> None:
    runs = [make_result(number) for number in range(3)]
    path = publishing.publish(runs, tmp_path, [], SLOW)
    assert dict(baselines.speeds(tmp_path)) == {path.parent.name: SLOW}
    text = (path.parent / "speed.json").read_text(encoding="utf-8")
    assert json.loads(text)["read_bytes_per_s"] == 10e9
    publishing.publish(runs, tmp_path, [], FAST)
    assert dict(baselines.speeds(tmp_path)) == {path.parent.name: SLOW}
