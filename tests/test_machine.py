"""What is said about this machine."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from labkit import machine, publishing
from labkit.machine import Machine, Speed

HERE = Machine("A (R) CPU @ 3.0GHz", 2, 2**33, "Linux", "x86_64")


def test_identity_is_complete_and_impersonal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The names of a machine that runs tests are often too short to look for.
    found = publishing.personal_names()
    monkeypatch.setattr(platform, "node", lambda: "adas-laptop")
    monkeypatch.setenv("LOGNAME", "ada-lovelace")
    here = machine.identify()
    assert here.cpu
    assert here.cores >= 1
    assert here.ram_bytes > 2**28
    values = [*asdict(here).values(), *machine.software().values()]
    names = [
        name.lower()
        for name in (*found, *publishing.personal_names())
        if len(name) >= publishing.SHORTEST_NAME
        and name.lower() not in publishing.SHARED_NAMES
    ]
    assert {"adas-laptop", "ada-lovelace"} <= set(names)
    for value in map(str, values):
        assert not [name for name in names if name in value.lower()]


def test_slug_is_a_safe_name_and_depends_on_the_software() -> None:
    one = machine.slug(HERE, {"torch": "2.13.0", "python": "3.11.7"})
    assert one.startswith("a-r-cpu-3-0ghz-2-cores-")
    assert one == machine.slug(HERE, {"python": "3.11.7", "torch": "2.13.0"})
    assert one != machine.slug(HERE, {"torch": "2.13.1", "python": "3.11.7"})


def test_a_new_process_does_not_begin_with_its_parents_peak() -> None:
    ballast = bytearray(b"x") * 2**28
    code = "from labkit import machine; print(machine.peak_rss_bytes())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < len(ballast)


def test_peak_is_at_least_what_is_resident() -> None:
    assert machine.peak_rss_bytes() >= 0.9 * machine.rss_bytes()


def test_threads_are_two_or_the_only_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cores, threads in ((1, 1), (2, 2), (64, 2)):
        monkeypatch.setattr(machine, "usable_cores", lambda n=cores: n)
        assert machine.default_threads() == threads


def test_ceilings_follow_from_the_clock() -> None:
    # Each step of this clock is a millisecond, so every try takes one.
    ticks = iter(range(0, 10**12, 10**6))
    found = machine.measure_speed(1, tries=3, clock=lambda: next(ticks))
    assert found.threads == 1
    assert found.read_bytes_per_s == pytest.approx(256 * 2**20 / 1e-3)
    assert found.flop_per_s == pytest.approx(2 * 1024**3 / 1e-3)


def test_speed_is_kept_and_only_gets_better(tmp_path: Path) -> None:
    runs = [Speed(2, 5e9, 9e9), Speed(2, 7e9, 8e9)]
    for run in runs:
        machine.refresh_speed(2, tmp_path, {2: run}.__getitem__)
    assert machine.speed(2, tmp_path) == Speed(2, 7e9, 9e9)


def test_a_speed_is_measured_again_after_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = Speed(2, 5e9, 9e9), Speed(2, 7e9, 9e9)
    monkeypatch.setattr(machine, "_speed_in_a_process", lambda _: old)
    assert machine.recent_speed(2, tmp_path) == old
    monkeypatch.setattr(machine, "_speed_in_a_process", lambda _: new)
    assert machine.recent_speed(2, tmp_path) == old
    for ahead_s in (3700, -60):  # or where the clock was set back
        later = iter([time.time() + ahead_s])
        found = machine.recent_speed(2, tmp_path, later.__next__)
        assert found == new


def test_a_damaged_speed_file_is_measured_again(tmp_path: Path) -> None:
    good = Speed(2, 5e9, 9e9)
    machine.refresh_speed(2, tmp_path, lambda _: good)
    (path,) = (tmp_path / "speed").iterdir()
    for damage in ("", "[]", json.dumps({"threads": 2}), '{"a": NaN}'):
        path.write_text(damage, encoding="utf-8")
        assert machine.refresh_speed(2, tmp_path, lambda _: good) == good


def test_a_spin_count_that_was_chosen_stays() -> None:
    empty: dict[str, str] = {}
    for before, after in ((empty, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        machine.wait_briefly(before)
        assert before == {"GOMP_SPINCOUNT": after}
