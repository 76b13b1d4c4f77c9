from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit import baselines, results
from labkit.baselines import Baseline, Refused
from labkit.errors import LabError
from labkit.records import Record
from labkit.results import Quantity, Result

MakeResult = Callable[..., Result]
REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "data"


def values(baseline: Baseline) -> dict[str, tuple[Any, str]]:
    records = [quantity.record for quantity in baseline.quantities]
    return {record.name: (record.value, record.unit) for record in records}


def only(found: list[Baseline | Refused]) -> Baseline:
    (baseline,) = found
    assert isinstance(baseline, Baseline), baseline
    return baseline


def published(lesson: str, start: str) -> Baseline:
    """The published baseline of a lesson whose name starts so."""
    return only(
        [b for b in baselines.load(DATA, lesson) if b.name.startswith(start)]
    )


def test_the_sweeps_are_carried_as_reported() -> None:
    sweeps = published("02", '"Serving and benchmarking')
    assert values(sweeps) == {
        "generation_s (128 in, 8 out)": (1.40, "s"),
        "generation_s (128 in, 32 out)": (4.06, "s"),
        "generation_s (128 in, 64 out)": (7.53, "s"),
        "generation_s (64 in, 32 out)": (3.43, "s"),
        "generation_s (256 in, 32 out)": (4.75, "s"),
        "output_tokens_per_s (128 in, 8 out)": (5.71, "tokens/s"),
        "output_tokens_per_s (128 in, 64 out)": (8.50, "tokens/s"),
        "time_ratio (8x output)": (5.37, ""),
        "time_ratio (4x input)": (1.38, ""),
        "peak_rss_gib": (1.06, "GiB"),
    }
    assert sweeps.ranges == {
        "generation_s (128 in, 64 out)": (7.11, 11.48),
        "generation_s (256 in, 32 out)": (4.33, 10.16),
    }
    protocol = sweeps.protocol
    assert (protocol.warmups, protocol.repeats) == (2, 5)
    assert (protocol.threads, len(protocol.conditions)) == (2, 6)
    assert (sweeps.model.name, sweeps.model.dtype) == (
        "smollm2-135m",
        "float32",
    )
    assert sweeps.kind == "reported"


def test_the_sweeps_stand_beside_lesson_03_as_well() -> None:
    again = published("03", '"Serving and benchmarking')
    assert again == published("02", '"Serving and benchmarking')


def test_the_one_completion_stands_beside_lesson_01() -> None:
    one = published("01", '"Serving and benchmarking')
    assert values(one) == {
        "completion_s": (1.86, "s"),
        "peak_rss_gib": (1.06, "GiB"),
    }


def test_the_other_bench_is_carried_with_its_revision() -> None:
    bench = published("02", "LLM Serving Bench v0.1.0")
    assert "f291bbe0e3fbd377438b56f4cbf4a7a808720d98" in bench.name
    assert bench.model.name == "smollm2-135m-instruct"
    assert values(bench)["output_tokens"] == (1152, "tokens")
    assert values(bench)["peak_rss_mib, highest"] == (1023.5, "MiB")
    assert len(bench.protocol.conditions) == 8


def test_every_published_file_is_readable() -> None:
    for lesson in ("01", "02"):
        found = baselines.load(DATA, lesson)
        assert not [b for b in found if isinstance(b, Refused)]
    assert baselines.load(DATA, "99") == []


def put(data: Path, slug: str, document: Any, lesson: str = "02") -> Path:
    path = data / "baselines" / slug / f"{lesson}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_reference_run_takes_its_results_together(
    make_result: MakeResult, tmp_path: Path
) -> None:
    runs = [make_result(n) for n in range(3)]
    put(tmp_path, "test-cpu", baselines.to_json("02", runs))
    found = only(baselines.load(tmp_path, "02"))
    assert (found.name, found.kind) == ("test-cpu", "measured")
    assert found.machine == "Test CPU, 2 cores, Linux"
    assert found.model == runs[0].model
    assert found.protocol == runs[0].protocol
    times, _, ratio, ids, logit, load = found.quantities
    together = [s for run in runs for s in run.quantities[0].samples[0]]
    assert list(times.samples[0]) == together
    assert times.record.value == results.value_of([together])
    assert [len(sample) for sample in ratio.samples] == [15, 15]
    assert ratio.record.value == results.value_of(ratio.samples)
    assert (ratio.record.low, ratio.record.high) == (4.0, 7.5)
    assert ids == runs[0].quantities[3]
    assert logit == runs[0].quantities[4]
    assert load.samples == ((0.9, 0.9, 0.9),)
    assert baselines.load(tmp_path, "01") == []


def test_ratios_of_single_readings_are_taken_together(
    make_result: MakeResult,
) -> None:
    runs = [
        make_result(
            n, quantities=(Quantity(Record("r", value, "", "ratio", low=0)),)
        )
        for n, value in enumerate((0.94, 1.02, 0.98))
    ]
    (ratio,) = baselines.pooled(runs)
    assert ratio.record.value == 0.98
    assert ratio.samples == ((0.94, 1.02, 0.98),)


def test_readings_that_are_no_numbers_are_not_taken_together(
    make_result: MakeResult,
) -> None:
    text = Quantity(Record("answer", "yes"))
    undefined = Quantity(Record("tpot_ms", None, "ms"))
    runs = [make_result(n, quantities=(text, undefined)) for n in range(3)]
    assert baselines.pooled(runs) == (text, undefined)


def test_samples_that_do_not_fit_together_are_refused(
    make_result: MakeResult,
) -> None:
    several = Quantity.median("load_s", "s", [1.0, 2.0])
    single = Quantity(Record("load_s", 1.0, "s"))
    runs = [make_result(quantities=(q,)) for q in (several, single)]
    with pytest.raises(LabError, match="load_s"):
        baselines.pooled(runs)


def test_predictions_are_nobody_elses_business(
    make_result: MakeResult,
) -> None:
    run = make_result()
    assert run.predictions
    document = baselines.to_json("02", [run])
    assert document["results"][0]["predictions"] == {}
    assert run.predictions
    (back,) = baselines.results_of(document)
    assert back == replace(run, predictions={})


def drop_results(document: dict[str, Any]) -> None:
    document["results"] = []


def odd_result(document: dict[str, Any]) -> None:
    document["results"][1] = 3


def old_result(document: dict[str, Any]) -> None:
    document["results"][1]["version"] = 0


def edited_result(document: dict[str, Any]) -> None:
    document["results"][2]["quantities"][0]["record"]["value"] = 0.5


def other_version(document: dict[str, Any]) -> None:
    document["version"] = 7


def other_schema(document: dict[str, Any]) -> None:
    document["schema"] = "labkit.result"


def other_lesson(document: dict[str, Any]) -> None:
    document["lesson"] = "03"


def lesson_inside(document: dict[str, Any]) -> None:
    document["results"][1]["lesson"] = "03"


def moved(document: dict[str, Any]) -> None:
    """A whole baseline of lesson 03 under the name of lesson 02."""
    document["lesson"] = "03"
    for result in document["results"]:
        result["lesson"] = "03"


def more(document: dict[str, Any]) -> None:
    document["more"] = 1


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (drop_results, "holds no results"),
        (odd_result, "results.1: "),
        (old_result, "version 0 of the schema labkit.result"),
        (edited_result, "follows from its samples"),
        (other_version, "version 7 of the schema labkit.baseline"),
        (other_schema, "not a labkit.baseline document"),
        (other_lesson, "another lesson"),
        (lesson_inside, "another lesson"),
        (more, "has an unknown field 'more'"),
        (moved, "of another lesson"),
    ],
)
def test_a_reference_run_with_a_fault_is_refused_and_the_rest_is_kept(
    make_result: MakeResult,
    tmp_path: Path,
    fault: Callable[[dict[str, Any]], None],
    word: str,
) -> None:
    good = baselines.to_json("02", [make_result(n) for n in range(3)])
    bad = deepcopy(good)
    fault(bad)
    put(tmp_path, "bad-cpu", bad)
    put(tmp_path, "good-cpu", good)
    refused, kept = baselines.load(tmp_path, "02")
    assert isinstance(refused, Refused)
    assert refused.name == "bad-cpu"
    assert word in refused.reason
    assert str(tmp_path) not in refused.reason
    assert isinstance(kept, Baseline)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[1]", b"null"])
def test_a_broken_file_is_refused_by_name(
    tmp_path: Path, content: bytes
) -> None:
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "broken.json").write_bytes(content)
    (refused,) = baselines.load(tmp_path, "02")
    assert isinstance(refused, Refused)
    assert refused.name == "broken"


def test_a_published_file_with_a_wrong_field_is_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "published"
    folder.mkdir()
    source = DATA / "published" / "serving_lesson_1.json"
    document = json.loads(source.read_text(encoding="utf-8"))
    document["runs"][1]["ranges"] = {"a": [1, 2, 3]}
    (folder / "odd.json").write_text(json.dumps(document), encoding="utf-8")
    (refused,) = baselines.load(tmp_path, "01")
    assert isinstance(refused, Refused)
    assert "ranges" in refused.reason


def test_the_folder_of_a_result_follows_from_machine_and_software(
    make_result: MakeResult,
) -> None:
    slug = baselines.slug(make_result())
    assert slug.startswith("test-cpu-2-cores-")
    other = make_result(software={"python": "3.12.0", "torch": "2.13.0"})
    assert baselines.slug(other) != slug


@pytest.fixture
def a_course(tmp_path: Path) -> Path:
    root = tmp_path / "course"
    for name in ("labkit", "notebooks", "data"):
        (root / name).mkdir(parents=True)
    (root / "notebooks" / "01_a.ipynb").write_text("{}", encoding="utf-8")
    return root


@pytest.mark.parametrize("inside", ["", "notebooks", "data", "labkit"])
def test_the_data_is_found_from_inside_the_course(
    a_course: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    monkeypatch.chdir(a_course / inside)
    assert baselines.data_folder().resolve() == (a_course / "data").resolve()


def test_broken_reasons_are_lab_errors(tmp_path: Path) -> None:
    with pytest.raises(LabError):
        baselines.results_of({"schema": "x"})
