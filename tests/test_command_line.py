"""The command line: help, exit codes, one line for the person."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import __main__, checkpoints, course, doctor, lab
from labkit.doctor import Finding

COMMANDS = [
    info.callback.__name__
    for info in __main__.app.registered_commands
    if info.callback is not None
]


def labkit(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m labkit` as a person would."""
    return subprocess.run(
        [sys.executable, "-m", "labkit", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    done = labkit(command, "--help")
    assert done.returncode == 0
    assert f"Example: python -m labkit {command}" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fetch", "gpt-9"], "No model is called 'gpt-9'"),
        (["run", "77"], "There is no lesson '77'"),
        (["rerun", "x"], "There is no lesson 'x'"),
        (["lab", "--lesson", "77"], "There is no lesson '77'"),
        (["lab", "77"], "There is no lesson '77'"),
        (["exercise", "x"], "There is no lesson 'x'"),
        (["grade", "03", "nobodys-folder"], "There is no folder nobodys"),
        (["serve", "--model", "gpt-9"], "No model is called 'gpt-9'"),
        (["serve", "--threads", "0"], "0 threads cannot be used"),
        (["serve", "--threads", "-1"], "-1 threads cannot be used"),
        (["serve", "--threads", "9999"], "9999 threads cannot be used"),
        (["serve", "--name", "http://x"], "is not the name of a host"),
        (["serve", "--name", "x:80"], "is not the name of a host"),
        (["serve", "--name", ""], "is not the name of a host"),
    ],
)
def test_bad_input_is_one_line(words: list[str], sentence: str) -> None:
    done = labkit(*words)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_serving_without_a_model_says_what_to_run(tmp_path: Path) -> None:
    done = labkit("serve", LABKIT_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "run `python -m labkit fetch" in done.stderr
    assert "Traceback" not in done.stderr


def test_jupyterlab_keeps_its_token_and_listens_on_loopback(
    tmp_path: Path,
) -> None:
    notebook = tmp_path / "notebooks" / "01_serve_a_model.ipynb"
    words = lab.arguments(tmp_path, notebook, {"DISPLAY": ":0"}, 1000)
    assert "--ip=127.0.0.1" in words
    assert (
        "--LabApp.default_url=/lab/tree/notebooks/01_serve_a_model.ipynb"
        in words
    )
    text = " ".join(words)
    for unwanted in ("token", "password", "allow-root", "port"):
        assert unwanted not in text


@pytest.mark.parametrize(
    ("uid", "there"), [(0, True), (1000, False), (None, False)]
)
def test_only_root_is_allowed_as_root(
    tmp_path: Path, uid: int | None, there: bool
) -> None:
    notebook = tmp_path / "notebooks" / "01.ipynb"
    words = lab.arguments(tmp_path, notebook, {}, uid)
    assert ("--allow-root" in words) is there


@pytest.mark.parametrize(
    ("environment", "platform", "there"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
        ({}, "win32", True),
        ({"SSH_CONNECTION": "x"}, "darwin", False),
    ],
)
def test_display(
    environment: dict[str, str], platform: str, there: bool
) -> None:
    assert lab.has_display(environment, platform) is there


def test_news_are_off_and_other_settings_stay(tmp_path: Path) -> None:
    path = tmp_path / "share/jupyter/lab/settings/overrides.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"@a:b": {"theme": "dark"}}', encoding="utf-8")
    lab.write_settings(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert '"theme": "dark"' in text
    assert '"fetchNews": "false"' in text
    lab.write_settings(tmp_path)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("there", ['{"a": 1,', "[]", "null", "\ufeff{}"])
def test_settings_that_cannot_be_read_stay(tmp_path: Path, there: str) -> None:
    path = tmp_path / "share/jupyter/lab/settings/overrides.json"
    path.parent.mkdir(parents=True)
    path.write_text(there, encoding="utf-8")
    lab.write_settings(tmp_path)
    assert path.read_text(encoding="utf-8") == there


def test_settings_are_made_where_there_are_none(tmp_path: Path) -> None:
    lab.write_settings(tmp_path)
    path = tmp_path / "share/jupyter/lab/settings/overrides.json"
    assert '"fetchNews": "false"' in path.read_text(encoding="utf-8")


HOME = Path("/home/ada").absolute()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{HOME}", "~"),
        (f"at {HOME / 'labkit'}, or", f"at ~{os.sep}labkit, or"),
        (f"of {HOME}.", "of ~."),
        (f"file://{HOME}/x", "file://~/x"),
        (f"{HOME}_data/x", f"{HOME}_data/x"),
        (f"{HOME}-2 {HOME}.old", f"{HOME}-2 {HOME}.old"),
        (f"/mnt{HOME}", f"/mnt{HOME}"),
    ],
)
def test_only_the_home_folder_is_hidden(
    monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: HOME)
    assert course.without_home(text) == shown


def test_a_home_folder_that_is_a_link_is_hidden_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, home = tmp_path / "disk" / "ada", tmp_path / "ada"
    real.mkdir(parents=True)
    home.symlink_to(real)
    monkeypatch.setattr(Path, "home", lambda: home)
    assert course.without_home(f"{home} {real}") == "~ ~"


def test_a_user_without_a_home_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert course.without_home("/x") == "/x"
    monkeypatch.setattr(Path, "home", lambda: Path("/").absolute())
    assert course.without_home("/x") == "/x"


def test_no_line_of_doctor_shows_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")
    finding = doctor.cache_finding(place)
    assert str(place) in finding.mend
    text = doctor.as_text([finding, Finding("x", f"{tmp_path}", "y")])
    assert str(tmp_path) not in text
    assert f"~{os.sep}file" in text


def test_doctor_names_what_is_wrong_and_the_mend(tmp_path: Path) -> None:
    name = checkpoints.DEFAULT
    findings = {f.topic: f for f in doctor.model_findings(tmp_path)}
    assert "python -m labkit fetch" in findings[f"model {name}"].mend
    assert findings["model smollm2-135m"].mend == ""
    text = doctor.as_text([Finding("memory", "none", "buy some")])
    assert text.endswith("To mend:\n- memory: buy some")


@pytest.mark.parametrize(
    ("version", "wrong"),
    [((3, 10), True), ((3, 11), False), ((3, 13), False), ((3, 14), True)],
)
def test_doctor_knows_which_python_works(
    version: tuple[int, int], wrong: bool
) -> None:
    assert bool(doctor.python_finding(version).mend) is wrong


def test_doctor_compares_versions_with_what_is_asked_for() -> None:
    from packaging.requirements import Requirement

    asked = Requirement("psutil>=9000")
    assert ">=9000" in doctor.package_finding("psutil", asked).mend
    gone = Requirement("no-such-package-here")
    assert doctor.package_finding(gone.name, gone).state == "missing"


def test_doctor_says_when_the_cache_takes_no_files(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")
    assert "LABKIT_HOME" in doctor.cache_finding(place).mend
    assert doctor.cache_finding(tmp_path / "new").mend == ""
    assert list((tmp_path / "new").iterdir()) == []
