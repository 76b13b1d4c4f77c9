from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from labkit import results, store
from labkit.errors import LabError
from labkit.records import Record
from labkit.results import Quantity, Result
from labkit.timing import Schedule

MakeResult = Callable[..., Result]
Place = tuple[str | int, ...]


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where each value of a document stands, containers included."""
    if place:
        yield place
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value[:2])
    for key, item in items:
        yield from leaves(item, (*place, key))


def parent_of(document: Any, place: Place) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


def test_a_result_comes_back_as_it_was(
    make_result: MakeResult, tmp_path: Path
) -> None:
    made = make_result()
    path = results.save(made, tmp_path)
    assert results.load(path) == made
    assert path == tmp_path / "02" / "20250131T120000Z" / "result.json"
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


def test_values_of_runs_come_back_as_plain_json(
    make_result: MakeResult, tmp_path: Path
) -> None:
    made = make_result()
    first = replace(made.observations[0], value=(1, (2, "x"), None))
    made = replace(made, observations=(first, *made.observations[1:]))
    loaded = results.load(results.save(made, tmp_path))
    assert loaded.observations[0].value == [1, [2, "x"], None]


def test_the_document_is_plain_and_pure(make_result: MakeResult) -> None:
    made = make_result()
    document = results.to_json(made)
    assert document == json.loads(json.dumps(document))
    assert document["schema"] == "labkit.result"
    assert document["version"] == 1
    assert results.from_json(document) == made
    assert document == results.to_json(made)


REQUIRED: tuple[Place, ...] = (
    *((name,) for name in ("schema", "version", "lesson", "started_utc")),
    *((name,) for name in ("machine", "software", "model", "protocol")),
    *((name,) for name in ("observations", "quantities")),
    *(("machine", name) for name in ("cpu", "cores", "ram_bytes", "system")),
    *(("model", name) for name in ("name", "source", "revision")),
    *(("model", name) for name in ("sha256", "dtype")),
    *(("protocol", name) for name in ("name", "conditions", "warmups")),
    *(("protocol", name) for name in ("repeats", "seed", "order")),
    *(("protocol", name) for name in ("threads", "prompt_sha256")),
    *(("observations", 0, name) for name in ("condition", "repeat")),
    *(("observations", 0, name) for name in ("position", "seconds")),
    ("observations", 0, "started_s"),
    ("quantities", 0, "record"),
    ("quantities", 0, "record", "name"),
    ("quantities", 0, "record", "value"),
)


@pytest.mark.parametrize("place", REQUIRED)
def test_any_field_that_is_missing_is_refused(
    make_result: MakeResult, tmp_path: Path, place: Place
) -> None:
    document = results.to_json(make_result())
    del parent_of(document, place)[place[-1]]
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(LabError, match=r"cut\.json was not read"):
        results.load(path)


def test_any_field_of_another_type_is_refused(
    make_result: MakeResult, tmp_path: Path
) -> None:
    good = results.to_json(make_result())
    path = tmp_path / "odd.json"
    tried = 0
    for place in leaves(good):
        if place[0] == "observations" and place[-1] == "value":
            continue  # whatever a run returned
        bad = deepcopy(good)
        odd: object = 3 if place[0] == "theory" else {"odd": {}}
        parent_of(bad, place)[place[-1]] = odd
        path.write_text(json.dumps(bad), encoding="utf-8")
        with pytest.raises(LabError, match=r"odd\.json was not read"):
            results.load(path)
        tried += 1
    assert tried > 60


@pytest.mark.parametrize("part", range(1, 40))
def test_a_cut_file_is_never_half_read(
    make_result: MakeResult, tmp_path: Path, part: int
) -> None:
    path = results.save(make_result(), tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * part // 40])
    with pytest.raises(LabError, match=r"result\.json was not read"):
        results.load(path)


def change(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update({name: value})


def edit_sample(document: dict[str, Any]) -> None:
    document["quantities"][0]["samples"][0][0] = 100.0
    document["quantities"][0]["samples"][0][1] = 100.0
    document["quantities"][0]["samples"][0][2] = 100.0


def edit_ratio(document: dict[str, Any]) -> None:
    document["quantities"][2]["record"]["value"] *= 1.001


def three_samples(document: dict[str, Any]) -> None:
    document["quantities"][2]["samples"].append([1.0])


def empty_sample(document: dict[str, Any]) -> None:
    document["quantities"][0]["samples"] = [[]]


def nan_text(document: dict[str, Any]) -> None:
    document["observations"][0]["seconds"] = float("nan")


def negative(document: dict[str, Any]) -> None:
    document["observations"][0]["seconds"] = -1.0


def foreign_condition(document: dict[str, Any]) -> None:
    document["observations"][0]["condition"] = "another"


def repeated_run(document: dict[str, Any]) -> None:
    document["observations"].append(document["observations"][0])


def repeated_quantity(document: dict[str, Any]) -> None:
    document["quantities"].append(document["quantities"][0])


def unknown_rule(document: dict[str, Any]) -> None:
    document["quantities"][0]["record"]["rule"] = "guess"


def open_protocol(document: dict[str, Any]) -> None:
    document["protocol"]["seed"] = None


def no_cores(document: dict[str, Any]) -> None:
    document["machine"]["cores"] = 0


def open_threads(document: dict[str, Any]) -> None:
    document["protocol"]["threads"] = None


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (change("schema", "other"), "not a labkit.result document"),
        (change("version", 2), "version 2 of the schema"),
        (change("more", 1), "has an unknown field 'more'"),
        (no_cores, "machine.cores must be 1 or more"),
        (change("quantities", []), "has no quantity"),
        (change("lesson", "2"), "two digits"),
        (change("lesson", "../02"), "two digits"),
        (change("lesson", "02\n"), "two digits"),
        (change("started_utc", "yesterday"), "started_utc"),
        (change("started_utc", "2025-01-31T12:00:00+01:00"), "started_utc"),
        (change("predictions", {"a": "much"}), r"predictions\.a"),
        (edit_sample, "follows from its samples"),
        (edit_ratio, "follows from its samples"),
        (three_samples, "3 samples"),
        (empty_sample, "no values"),
        (nan_text, "NaN"),
        (negative, "-1.0 s"),
        (foreign_condition, "no condition of the protocol"),
        (repeated_run, "two observations of repeat"),
        (repeated_quantity, "same name"),
        (unknown_rule, "rule"),
        (open_protocol, "lacks warm-ups, repeats or a seed"),
        (open_threads, "lacks the order or the threads"),
    ],
)
def test_what_does_not_hold_together_is_refused(
    make_result: MakeResult,
    tmp_path: Path,
    fault: Callable[[dict[str, Any]], None],
    word: str,
) -> None:
    document = results.to_json(make_result())
    fault(document)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(LabError, match=r"bad\.json was not read") as caught:
        results.load(path)
    assert word.replace("\\", "") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_median_and_a_ratio_are_computed_from_their_samples() -> None:
    median = Quantity.median("t", "s", [3, 1, 2])
    assert median.record == Record("t", 2.0, "s")
    assert median.samples == ((3.0, 1.0, 2.0),)
    ratio = Quantity.ratio("r", [4, 6, 8], [2, 2, 3], low=1)
    assert ratio.record == Record("r", 3.0, rule="ratio", low=1)


def test_a_protocol_is_that_of_its_schedule(make_result: MakeResult) -> None:
    schedule = Schedule(("a", "b"), 5, 2, 7, "blocked")
    made = results.Protocol.of("p", schedule, 2, "ab")
    assert made == results.Protocol(
        "p", ("a", "b"), 2, 5, 7, "blocked", 2, "ab"
    )


def test_a_run_may_take_no_time(make_result: MakeResult) -> None:
    first = replace(make_result().observations[0], seconds=0.0)
    assert make_result(observations=(first,)).observations == (first,)


def test_undefined_quantities_are_refused() -> None:
    with pytest.raises(LabError, match="over 0"):
        Quantity.ratio("r", [1], [0, 0], low=1)
    with pytest.raises(LabError, match="no values"):
        Quantity.median("t", "s", [])
    with pytest.raises(LabError, match="no number follows"):
        Quantity(Record("t", [1, 2]), ((1.0,),))


def test_nan_is_not_saved_and_leaves_nothing(
    make_result: MakeResult, tmp_path: Path
) -> None:
    odd = Quantity(Record("odd", float("nan")))
    made = make_result(quantities=(odd,))
    with pytest.raises(LabError, match="odd"):
        results.save(made, tmp_path)
    with pytest.raises(LabError, match="prediction"):
        make_result(predictions={"a": float("inf")})
    first = replace(make_result().observations[0], value={1, 2})
    with pytest.raises(LabError, match="cannot be saved"):
        results.save(make_result(observations=(first,)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_result_is_written_over(
    make_result: MakeResult, tmp_path: Path
) -> None:
    made = make_result()
    with ThreadPoolExecutor(8) as pool:
        paths = list(
            pool.map(lambda _: results.save(made, tmp_path), "x" * 12)
        )
    assert len(set(paths)) == 12
    assert all(results.load(path) == made for path in paths)


def test_a_full_disk_leaves_no_folder(
    make_result: MakeResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_text", full)
    with pytest.raises(LabError, match="No space left"):
        results.save(make_result(), tmp_path)
    assert list((tmp_path / "02").iterdir()) == []


def test_a_place_that_is_no_folder_is_refused(
    make_result: MakeResult, tmp_path: Path
) -> None:
    place = tmp_path / "file"
    place.write_text("kept", encoding="utf-8")
    with pytest.raises(LabError, match="could not be saved"):
        results.save(make_result(), place)
    assert place.read_text(encoding="utf-8") == "kept"


def test_the_latest_are_the_newest_in_order(
    make_result: MakeResult, tmp_path: Path
) -> None:
    for number in (3, 1, 2):
        results.save(make_result(number), tmp_path)
    results.save(make_result(9, lesson="03"), tmp_path)
    started = [r.started_utc for r in results.latest(tmp_path, "02", 2)]
    assert started == ["2025-01-31T12:00:02Z", "2025-01-31T12:00:03Z"]
    assert results.latest(tmp_path, "02") == [make_result(3)]


def test_the_eleventh_of_a_second_comes_after_the_second(
    make_result: MakeResult, tmp_path: Path
) -> None:
    for number in range(11):
        made = make_result(number, started_utc="2025-01-31T12:00:00Z")
        results.save(made, tmp_path)
    (last,) = results.latest(tmp_path, "02")
    assert last.observations == make_result(10).observations


def test_too_few_results_are_told(
    make_result: MakeResult, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match="There is no result of lesson 02 yet"):
        results.latest(tmp_path, "02")
    results.save(make_result(), tmp_path)
    with pytest.raises(LabError, match=r"1 of the 3 .*twice more\.$"):
        results.latest(tmp_path, "02", 3)
    with pytest.raises(LabError, match=r"1 of the 2 .*once more\.$"):
        results.latest(tmp_path, "02", 2)


def test_what_is_no_result_is_not_looked_at(
    make_result: MakeResult, tmp_path: Path
) -> None:
    results.save(make_result(), tmp_path)
    (tmp_path / "02" / "20990101T000000Z").mkdir()
    (tmp_path / "02" / "notes").mkdir()
    (tmp_path / "02" / "notes" / "result.json").write_text("x")
    assert results.latest(tmp_path, "02") == [make_result()]


def test_a_broken_latest_result_is_not_passed_over(
    make_result: MakeResult, tmp_path: Path
) -> None:
    results.save(make_result(1), tmp_path)
    path = results.save(make_result(2), tmp_path)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(LabError, match=path.parent.name):
        results.latest(tmp_path, "02")


def make_folder(path: Path) -> None:
    path.mkdir()


def make_broken_link(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


@pytest.mark.parametrize("make", [make_folder, make_broken_link])
def test_whatever_stands_in_a_results_place_is_not_passed_over(
    make_result: MakeResult, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    results.save(make_result(1), tmp_path)
    path = results.save(make_result(2), tmp_path)
    path.unlink()
    make(path)
    with pytest.raises(LabError, match=rf"{path.parent.name}.*was not read"):
        results.latest(tmp_path, "02")


def test_a_result_in_the_folder_of_another_lesson_is_refused(
    make_result: MakeResult, tmp_path: Path
) -> None:
    path = results.save(make_result(1, lesson="03"), tmp_path)
    (tmp_path / "03").rename(tmp_path / "02")
    with pytest.raises(LabError, match=r"of lesson 03") as caught:
        results.latest(tmp_path, "02")
    assert path.parent.name in str(caught.value)


@pytest.mark.parametrize("place", ["results", "results/02"])
def test_a_results_folder_that_is_a_file_is_told(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("", encoding="utf-8")
    with pytest.raises(LabError, match=r"is a file, where") as caught:
        results.latest(tmp_path / "results", "02")
    assert str(path) in str(caught.value)


def test_moments_are_written_in_utc() -> None:
    moment = datetime(2025, 1, 31, 23, 30, tzinfo=UTC)
    assert results.timestamp(moment) == "2025-01-31T23:30:00Z"
    east = moment.astimezone(timezone(timedelta(hours=5)))
    assert results.timestamp(east) == "2025-01-31T23:30:00Z"
