from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit import baselines, publishing, store
from labkit.baselines import Baseline
from labkit.errors import LabError
from labkit.publishing import faults, personal_strings, publish
from labkit.records import Record
from labkit.results import Model, Quantity, Result

MakeResult = Callable[..., Result]
REPOSITORY = Path(__file__).parents[2]
NOBODY: tuple[str, ...] = ()


@pytest.fixture
def three(make_result: MakeResult) -> list[Result]:
    return [make_result(n) for n in range(3)]


def test_three_runs_that_agree_become_a_baseline(
    three: list[Result], tmp_path: Path
) -> None:
    assert faults(three) == []
    path = publish(three, tmp_path, NOBODY)
    slug = baselines.slug(three[0])
    assert path == tmp_path / "baselines" / slug / "02.json"
    (found,) = baselines.load(tmp_path, "02")
    assert isinstance(found, Baseline)
    assert len(found.quantities[0].samples[0]) == 15
    held = baselines.results_of(json.loads(path.read_text("utf-8")))
    assert [run.observations for run in held] == [
        run.observations for run in three
    ]


def test_publishing_the_same_again_changes_nothing(
    three: list[Result], tmp_path: Path
) -> None:
    path = publish(three, tmp_path, NOBODY)
    before = path.read_bytes()
    assert publish(three, tmp_path, NOBODY) == path
    assert path.read_bytes() == before


def test_another_baseline_is_not_written_over(
    three: list[Result], make_result: MakeResult, tmp_path: Path
) -> None:
    path = publish(three, tmp_path, NOBODY)
    before = path.read_bytes()
    others = [make_result(n) for n in range(3, 6)]
    with pytest.raises(LabError, match="holds another baseline"):
        publish(others, tmp_path, NOBODY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_it_takes_three_results(make_result: MakeResult, count: int) -> None:
    (fault,) = faults([make_result(n) for n in range(count)])
    assert f"{count} results, where 3 are needed" in fault
    assert ("once more" in fault) == (count == 2)


def test_the_same_run_does_not_count_twice(three: list[Result]) -> None:
    again = [three[0], three[1], three[1]]
    assert faults(again) == ["two of the results are the same run"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"lesson": "03"}, "same lesson"),
        (
            {"software": {"python": "3.12.0", "torch": "2.13.0"}},
            "same software: python is '3.11.7' in 2025-01-31T12:00:00Z,"
            " 2025-01-31T12:00:01Z, '3.12.0' in 2025-01-31T12:00:02Z",
        ),
        ({"model": Model("m", None, None, None, "float32")}, "same model"),
        (
            {"quantities": (Quantity(Record("load_s", 0.9, "s")),)},
            "same quantities: generation_s (128 in, 8 out) (info, 1 samples)"
            " is not in 2025-01-31T12:00:02Z",
        ),
    ],
)
def test_the_results_must_be_of_one_thing(
    three: list[Result], change: dict[str, Any], word: str
) -> None:
    three[2] = replace(three[2], **change)
    assert any(word in fault for fault in faults(three))


def test_the_machine_and_protocol_must_be_the_same(
    three: list[Result],
) -> None:
    machine = replace(three[0].machine, cores=4)
    protocol = replace(three[0].protocol, threads=1)
    for change, told in (
        ({"machine": machine}, "machine: cores is 2 in"),
        ({"protocol": protocol}, "protocol: threads is 2 in"),
    ):
        changed = [*three[:2], replace(three[2], **change)]
        (fault,) = faults(changed)
        assert told in fault


def test_long_values_are_cut_to_where_they_differ(
    three: list[Result],
) -> None:
    names = ("a" * 99 + "x" + "b" * 99, "a" * 99 + "y" + "b" * 99)
    runs = [
        replace(run, protocol=replace(run.protocol, name=name))
        for run, name in zip(three, (*names, names[0]), strict=True)
    ]
    (fault,) = faults(runs)
    assert "...aaaa" in fault
    assert "ax" in fault
    assert "ay" in fault
    assert len(fault) < 250


@pytest.mark.parametrize("gone", [0, 4, 9])
def test_every_run_must_have_been_made(three: list[Result], gone: int) -> None:
    seen = list(three[1].observations)
    del seen[gone]
    three[1] = replace(three[1], observations=tuple(seen))
    assert "2025-01-31T12:00:01Z: 9 of 10 runs were made" in faults(three)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"repeats": 3}, "fewer than 5 repeats"),
        ({"warmups": 1}, "fewer than 2 warm-ups"),
        ({"order": "blocked"}, "not interleaved"),
    ],
)
def test_the_full_protocol_is_needed(
    three: list[Result], change: dict[str, Any], word: str
) -> None:
    made = []
    for run in three:
        protocol = replace(run.protocol, **change)
        kept = tuple(
            seen
            for seen in run.observations
            if seen.repeat <= (protocol.repeats or 0)
        )
        made.append(replace(run, protocol=protocol, observations=kept))
    found = faults(made)
    runs = ", ".join(run.started_utc for run in three)
    (fault,) = found
    assert fault.startswith(f"{runs}: ")
    assert word in fault


def test_a_refusal_has_one_line_for_each_fault(
    three: list[Result], tmp_path: Path
) -> None:
    protocol = replace(three[0].protocol, warmups=1, order="blocked")
    runs = [replace(run, protocol=protocol) for run in three]
    with pytest.raises(LabError) as caught:
        publish(runs, tmp_path, NOBODY)
    assert len(str(caught.value).splitlines()) == 3


def test_a_noisy_result_is_not_published(
    three: list[Result], tmp_path: Path
) -> None:
    loud = [replace(s, load_after=5.0) for s in three[0].observations]
    three[0] = replace(three[0], observations=tuple(loud))
    with pytest.raises(LabError, match=r"load average 5\.0 on 2 cores"):
        publish(three, tmp_path, NOBODY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("scale", "fits"), [(1.05, True), (1.15, False)])
def test_medians_must_agree_within_ten_per_cent(
    three: list[Result], make_result: MakeResult, scale: float, fits: bool
) -> None:
    three[1] = make_result(1, scale=scale)
    found = faults(three)
    assert (found == []) == fits
    if not fits:
        assert len(found) == 2  # both times; their ratio agrees
        assert all("more than 10% apart" in fault for fault in found)


def test_the_smallest_and_largest_median_are_compared(
    make_result: MakeResult,
) -> None:
    """Neighbours within ten per cent are not enough."""
    scales = (0.94, 1.0, 1.06)
    runs = [make_result(n, scale=s) for n, s in enumerate(scales)]
    assert faults(runs)


def with_quantity(run: Result, quantity: Quantity) -> Result:
    return replace(run, quantities=(*run.quantities, quantity))


def test_counts_must_be_the_same(three: list[Result]) -> None:
    counts = (7, 7, 8)
    runs = [
        with_quantity(run, Quantity(Record("tokens", n, rule="exact")))
        for run, n in zip(three, counts, strict=True)
    ]
    (fault,) = faults(runs)
    assert "tokens" in fault


def test_ratios_must_agree_as_well(three: list[Result]) -> None:
    runs = [
        with_quantity(run, Quantity.ratio("r", [top, top], [1, 1], low=1))
        for run, top in zip(three, (2.0, 2.0, 2.3), strict=True)
    ]
    (fault,) = faults(runs)
    assert fault == (
        "r: medians from 2 (2025-01-31T12:00:00Z) to 2.3"
        " (2025-01-31T12:00:02Z), more than 10% apart"
    )


@pytest.mark.parametrize(
    ("values", "agree"),
    [
        ((-2.0, -2.0, -2.0), True),
        ((-2.0, -2.0, -2.3), False),
        ((-1.0, 0.0, 1.0), False),
        ((0.0, 0.0, 0.0), True),
    ],
)
def test_medians_of_any_sign_are_compared(
    three: list[Result], values: tuple[float, ...], agree: bool
) -> None:
    runs = [
        with_quantity(run, Quantity.median("d", "s", [value, value]))
        for run, value in zip(three, values, strict=True)
    ]
    assert (faults(runs) == []) == agree


def test_samples_must_be_kept_alike(three: list[Result]) -> None:
    reading = Quantity(Record("t", 1.0, "s"))
    sample = Quantity.median("t", "s", [1.0, 1.0])
    runs = [
        with_quantity(run, quantity)
        for run, quantity in zip(three, (sample, sample, reading), strict=True)
    ]
    (fault,) = faults(runs)
    assert "same quantities: t (info, 1 samples) is not in" in fault


def test_quantities_must_come_in_the_same_order(three: list[Result]) -> None:
    turned = tuple(reversed(three[2].quantities))
    runs = [*three[:2], replace(three[2], quantities=turned)]
    (fault,) = faults(runs)
    assert "same order" in fault


@pytest.mark.parametrize("unit", ["s", "ms", "tokens/s", "requests/s"])
def test_single_readings_of_a_clock_agree_roughly(
    three: list[Result], unit: str
) -> None:
    def read(*values: float) -> list[str]:
        return faults(
            [
                with_quantity(run, Quantity(Record("first_load", s, unit)))
                for run, s in zip(three, values, strict=True)
            ]
        )

    assert read(1.0, 1.2, 1.29) == []
    (fault,) = read(85.4, 136.4, 84.6)
    assert "first_load: readings from 84.6" in fault
    assert "30%" in fault


def test_other_single_figures_need_not_agree(three: list[Result]) -> None:
    runs = [
        with_quantity(run, Quantity(Record("good_share", s)))
        for run, s in zip(three, (1.0, 3.0, 9.0), strict=True)
    ]
    assert faults(runs) == []


def test_a_lesson_without_trials_can_be_published(
    three: list[Result],
) -> None:
    counts = Quantity(Record("bytes", 9, rule="exact"))
    runs = [
        replace(
            run,
            protocol=replace(run.protocol, conditions=(), repeats=1),
            observations=(),
            quantities=(counts,),
        )
        for run in three
    ]
    assert faults(runs) == []


def test_medians_need_the_observations_behind_them(
    three: list[Result],
) -> None:
    runs = [
        replace(
            run,
            protocol=replace(run.protocol, conditions=()),
            observations=(),
        )
        for run in three
    ]
    assert any("without the observations" in fault for fault in faults(runs))


@pytest.mark.parametrize(
    "text",
    [
        "/home/mary/course",
        "loaded from /home/x",
        "/root",
        "see '/var/lib/thing'",
        "C:\\Users\\Mary",
        "D:/models/a",
        "\\\\server\\share",
        "~/models",
        "path=/srv/data/model.bin",
        "/nix/store/thing.bin",
        "mary@example.org",
        "Mary",
        "run by mary-ann",
        "BOX",
        "on box.local",
        "file:///home/bob/x",
        "FILE:C|/x",
        "`/home/bob/x`",
        "[/home/bob]",
        "</nix/store/x>",
        "a|/nix/store/x",
        "{/nix/store/x}",
        "\u201c/nix/store/x\u201d",
        "`/tmp`",
        "~bob/x",
        "-I/home/bob/inc",
        "vscode-remote://ssh/home/bob",
        "https://example.org:/home/bob",
        "..\\bob\\x",
        "192.168.1.17",
        "http://10.0.0.1:8080/v1",
        "at 10.0.0.1.",
        "fe80::1ff:fe23:4567:890a",
        "[2001:db8::1]:80",
        "::1",
        "bobs-macbook.local",
        "http://nas.lan/x",
        "host.internal",
        "mary_notes",
        "by Mary2",
        "notes_mary",
        "on q7",
    ],
)
def test_whatever_tells_of_somebody_is_found(text: str) -> None:
    document = {"a": [1, {"b": text}]}
    names = ["mary", "box", "q7"]
    assert list(personal_strings(document, names)) == [text]


def test_names_of_fields_are_looked_at_too() -> None:
    assert list(personal_strings({"/home/a": 1}, [])) == ["/home/a"]


@pytest.mark.parametrize(
    "text",
    [
        "tokens/s",
        "128 in, 8 out",
        "https://example.org/a/b/c.json",
        "pkg==0.1.2/Model.gguf",
        "Intel(R) Xeon(R) CPU @ 2.20GHz",
        "boxes and marys",
        "1/2/3",
        "HuggingFaceTB/SmolLM2-135M",
        "input / output",
        "primary",
        "https://example.org/home/x",
        "3.11.7",
        "580.126.20",
        "1.2.3.4.5",
        "999.104.5.1",
        "2025-01-31T12:00:00Z",
        "std::vector a :: b",
        "localized",
        "q70 xq7",
        "about ~3/4",
        "profile: a file: b",
        "ratio: 3/4",
        "2.13.0+cpu",
        "root",
        "server_rss_gib",
        "2e313036553e0e1192384de8f9c50a5583e08b3814379d0ff186f2f832ac2dcb",
    ],
)
def test_ordinary_texts_pass(text: str) -> None:
    names = ["mary", "box", "root", "q7", "server", "ac"]
    assert list(personal_strings([text], names)) == []


def test_nothing_personal_is_published(
    three: list[Result], tmp_path: Path
) -> None:
    told = [
        replace(run, model=replace(run.model, source="/home/mary/model"))
        for run in three
    ]
    with pytest.raises(LabError, match=r"tell where.*\n- '/home/mary/model'$"):
        publish(told, tmp_path, NOBODY)
    named = [
        replace(run, software={**run.software, "built": "on thebox"})
        for run in three
    ]
    with pytest.raises(LabError, match="on thebox"):
        publish(named, tmp_path, ["thebox"])
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_every_such_machine_says_tells_of_nobody(
    three: list[Result], tmp_path: Path
) -> None:
    machine = three[0].machine
    names = [machine.system.lower(), machine.cpu.split()[0], "python"]
    names += ["generation", "ratio", "load"]  # words of its quantities
    runs = [
        replace(run, software={"python": "3.11.7", "os": machine.system})
        for run in three
    ]
    assert publish(runs, tmp_path, names).is_file()


def test_by_default_this_machine_and_user_are_the_names(
    three: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing.platform, "node", lambda: "box7.example")
    monkeypatch.setattr(publishing.getpass, "getuser", lambda: "maryann")
    for text in ("box7.example", "on box7", "by maryann"):
        told = [
            replace(run, software={**run.software, "x": text}) for run in three
        ]
        with pytest.raises(LabError, match="tell where"):
            publish(told, tmp_path)

    def nobody() -> str:
        raise OSError

    monkeypatch.setattr(publishing.getpass, "getuser", nobody)
    assert publish(three, tmp_path).is_file()


def test_predictions_are_not_published(
    three: list[Result], tmp_path: Path
) -> None:
    private = [replace(run, predictions={"/home/mary": 1.0}) for run in three]
    path = publish(private, tmp_path, NOBODY)
    assert "mary" not in path.read_text("utf-8")


def test_a_full_disk_leaves_no_baseline(
    three: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_text", full)
    with pytest.raises(LabError, match="No space left"):
        publish(three, tmp_path, NOBODY)
    assert not list(tmp_path.rglob("*.json"))


def test_every_committed_baseline_could_be_published_again() -> None:
    for path in (REPOSITORY / "data" / "baselines").glob("*/[0-9][0-9].json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        runs = baselines.results_of(document)
        assert faults(runs) == [], path
        assert baselines.slug(runs[0]) == path.parent.name
        assert f"{runs[0].lesson}.json" == path.name
        assert list(personal_strings(document, [])) == [], path
