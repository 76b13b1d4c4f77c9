"""Reports are printed, kept and shown again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.errors import LabError

RESULTS = sorted(
    (Path(__file__).parents[2] / "bench/results").glob("*/*.json")
)
PAGES = {
    "decode": "report",
    "fuzz": "fuzz_report",
    "loadgen": "loadgen_report",
    "queueing": "queueing_report",
    "soak": "soak_report",
    "sweep": "sweep_report",
}


@pytest.fixture
def short_report(
    bench: Callable[[str], Any],
) -> Callable[[Path], None]:
    """Keeps a report that reads "the table"."""
    pages = SimpleNamespace(
        as_text=lambda made: "the table", to_text=lambda made: "{}"
    )
    return lambda path: bench("keeping").keep(pages, None, path)


def test_a_report_is_printed_and_kept(
    short_report: Callable[[Path], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    short_report(tmp_path / "a" / "decode.json")
    assert (tmp_path / "a" / "decode.json").read_text("utf-8") == "{}"
    assert capsys.readouterr().out.startswith("the table\n")


def test_a_disk_that_refuses_loses_no_report(
    short_report: Callable[[Path], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(LabError, match="could not be kept in"):
        short_report(tmp_path / "file" / "decode.json")
    assert capsys.readouterr().out == "the table\n"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_kept_result_is_shown_again(
    bench: Callable[[str], Any],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (path,) = (path for path in RESULTS if path.stem == name)
    monkeypatch.setattr("sys.argv", [name, "--show", str(path)])
    shown = bench("keeping").run_or_show(
        "What it measures.", f"{name}.json", bench(PAGES[name]), pytest.fail
    )
    assert shown is None
    assert "|" in capsys.readouterr().out


@pytest.mark.parametrize(("holds", "ends"), [(True, False), (False, True)])
def test_what_does_not_hold_ends_with_status_1(
    bench: Callable[[str], Any], holds: bool, ends: bool
) -> None:
    checks = [SimpleNamespace(holds=True), SimpleNamespace(holds=holds)]
    pages = SimpleNamespace(checks=lambda report: checks)
    try:
        bench("keeping").require(pages, "a report")
    except SystemExit as error:
        assert ends and error.code == 1
    else:
        assert not ends
    bench("keeping").require(pages, None)
