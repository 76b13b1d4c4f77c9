"""The set-up: what is installed, in which order, and after which accident.

Nothing here touches the network or installs a real package: commands go to
`Machine`, which only notes them, or to a pip of a few lines.
"""

from __future__ import annotations

import ast
import errno
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from labkit import bootstrap
from labkit.bootstrap import Outcome, Setup
from labkit.errors import LabError

ROOT = Path(bootstrap.__file__).parents[1]
FINE = Outcome(0, "")
NO_FACTS = Outcome(1, "cannot start")
NOT_THERE = Outcome(1, "ERROR: No matching distribution found for torch")
FULL = Outcome(1, "OSError: [Errno 28] No space left on device")


@dataclass
class Machine:
    """A machine on which every command works, unless `fails` objects."""

    root: Path
    python: list[int] = field(default_factory=lambda: [3, 11])
    torch: str | None = None
    has_pip: bool = True
    starts: bool = True
    local_torch: Outcome = NOT_THERE
    index_answers: bool = True
    fails: Callable[[str], Outcome | None] = lambda command: None
    ran: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    probed: list[str] = field(default_factory=list)

    def run(self, command: Sequence[str]) -> Outcome:
        line = " ".join(command).replace(str(self.root), "ROOT")
        self.ran.append(line)
        failure = self.fails(line)
        if failure is not None:
            return failure
        if "-m venv" in line:
            self.starts = True
            put_interpreter(self.root)
        return FINE

    def ask(self, command: Sequence[str]) -> Outcome:
        if "--no-index" in command:
            self.ran.append(" ".join(command).replace(str(self.root), "ROOT"))
            return self.local_torch
        if not self.starts:
            return NO_FACTS
        facts = {
            "python": self.python,
            "has_pip": self.has_pip,
            "torch": self.torch,
        }
        return Outcome(0, "some warning\n" + json.dumps(facts))

    def probe(self, url: str) -> bool:
        self.probed.append(url)
        return self.index_answers

    def setup(self) -> Setup:
        return Setup(
            root=self.root,
            run=self.run,
            ask=self.ask,
            probe=self.probe,
            say=self.said.append,
            base_python="python3",
            base_version=(3, 11),
            platform="linux",
            cpu_index="https://cpu.example/whl",
        )


def put_interpreter(root: Path) -> None:
    """Put down what stands for the interpreter of an environment."""
    for name in ("bin/python", "Scripts/python.exe"):
        path = root / ".venv" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with the two files that decide what is installed."""
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


@pytest.fixture
def machine(root: Path) -> Machine:
    return Machine(root)


@pytest.fixture
def installed(machine: Machine) -> Machine:
    """A machine after one finished run, with a file to tell its folder by."""
    bootstrap.make_environment(machine.setup(), [])
    (machine.root / ".venv/witness").touch()
    machine.torch = "2.13.0+cpu"
    machine.ran.clear()
    machine.said.clear()
    machine.probed.clear()
    return machine


def stamp(root: Path) -> dict[str, object]:
    text = (root / ".venv" / bootstrap.STAMP).read_text(encoding="utf-8")
    loaded: dict[str, object] = json.loads(text)
    return loaded


def names(root: Path) -> set[str]:
    return {path.name for path in (root / ".venv").iterdir()}


PIP = "ROOT/.venv/bin/python -m pip install --no-compile"
MAKES = "python3 -m venv ROOT/.venv"
BUILDER = f"{PIP} -c constraints.txt setuptools"
CPU_TORCH = (
    f"{PIP} --index-url https://cpu.example/whl --retries 0 --timeout 15 "
    "--no-deps torch==2.13.0"
)
LOCAL_TORCH = f"{PIP} --no-index --no-deps torch==2.13.0"
ANY_TORCH = f"{PIP} --no-deps torch==2.13.0"
COURSE = f"{PIP} -c constraints.txt --no-build-isolation -e ."


# A fresh machine ------------------------------------------------------------


def test_a_fresh_machine_gets_the_cpu_build_first(machine: Machine) -> None:
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran == [MAKES, BUILDER, CPU_TORCH, COURSE]
    assert machine.probed == ["https://cpu.example/whl/torch/"]
    assert stamp(machine.root)["groups"] == []
    assert bootstrap.MAKING not in names(machine.root)


def test_groups_are_installed_with_the_course(machine: Machine) -> None:
    bootstrap.make_environment(machine.setup(), ["test", "peers", "test"])
    assert machine.ran[-1] == f"{COURSE}[peers,test]"
    assert stamp(machine.root)["groups"] == ["peers", "test"]


def test_the_index_is_left_alone_when_it_is_silent(machine: Machine) -> None:
    machine.index_answers = False
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran == [MAKES, BUILDER, LOCAL_TORCH, ANY_TORCH, COURSE]
    assert any("several GB" in sentence for sentence in machine.said)


def test_the_index_can_fail_after_it_answered(machine: Machine) -> None:
    machine.fails = lambda line: Outcome(1, "") if line == CPU_TORCH else None
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran[2:] == [CPU_TORCH, LOCAL_TORCH, ANY_TORCH, COURSE]


def test_a_package_on_this_machine_spares_the_download(
    machine: Machine,
) -> None:
    machine.index_answers = False
    machine.local_torch = FINE
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran == [MAKES, BUILDER, LOCAL_TORCH, COURSE]
    assert not any("several GB" in sentence for sentence in machine.said)


def test_a_full_disk_is_no_reason_to_fetch_more(machine: Machine) -> None:
    machine.fails = lambda line: FULL if line == CPU_TORCH else None
    with pytest.raises(LabError, match="disk is too full"):
        bootstrap.make_environment(machine.setup(), [])
    assert machine.ran[-1] == CPU_TORCH


def test_a_disk_filled_by_the_local_package_is_named(
    machine: Machine,
) -> None:
    machine.index_answers = False
    machine.local_torch = FULL
    with pytest.raises(LabError, match="disk is too full"):
        bootstrap.make_environment(machine.setup(), [])
    assert machine.ran[-1] == LOCAL_TORCH


def test_a_disk_without_room_is_named_before_anything_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "free_bytes", lambda folder: 10**9)
    with pytest.raises(LabError, match="disk is too full"):
        bootstrap.make_environment(machine.setup(), [])
    assert machine.ran == []
    assert names(machine.root) == {bootstrap.MAKING}


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_the_package_index_has_the_cpu_build(
    machine: Machine, platform: str
) -> None:
    setup = replace(machine.setup(), platform=platform)
    bootstrap.make_environment(setup, [])
    assert machine.probed == []
    assert not any("torch" in line for line in machine.ran)
    inside = {"darwin": "bin/python", "win32": "Scripts/python.exe"}[platform]
    assert machine.ran[-1].startswith(f"ROOT/.venv/{inside} -m pip")


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 14), (2, 7)])
def test_another_python_is_refused_before_anything_is_made(
    machine: Machine, version: tuple[int, int]
) -> None:
    setup = replace(machine.setup(), base_version=version)
    with pytest.raises(LabError, match=r"make lab PYTHON=python3\.12"):
        bootstrap.make_environment(setup, [])
    assert not setup.venv.exists()
    assert machine.ran == []


def test_a_python_without_the_packages_is_told_which_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = bootstrap.not_here(tmp_path, ["check", "03"], "linux")
    assert "run `make lab` first" in said
    for platform, inside in (
        ("linux", "bin/python"),
        ("win32", "Scripts/python.exe"),
    ):
        python = Path(".venv", inside)
        python.parent.mkdir(parents=True)
        python.touch()
        said = bootstrap.not_here(tmp_path, ["check", "03"], platform)
        assert f"run `{python} -m labkit check 03`" in said
        said = bootstrap.not_here(tmp_path, ["check", "a b"], platform)
        quote = '"' if platform == "win32" else "'"
        assert f"check {quote}a b{quote}`" in said
    # That very Python asks, after an install that was broken off.
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    said = bootstrap.not_here(tmp_path, ["check", "03"], "linux")
    assert "run `make lab` first" in said


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_these_pythons_are_taken(
    machine: Machine, version: tuple[int, int]
) -> None:
    machine.python = list(version)
    setup = replace(machine.setup(), base_version=version)
    bootstrap.make_environment(setup, [])
    assert stamp(machine.root)["python"] == list(version)


def test_a_python_without_ensurepip_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "has_module", lambda m: m != "ensurepip")
    with pytest.raises(LabError, match=r"apt install python3\.11-venv"):
        bootstrap.make_environment(machine.setup(), [])
    assert not machine.setup().venv.exists()


@pytest.mark.parametrize("missing", ["constraints.txt", "pyproject.toml"])
def test_an_incomplete_copy_is_named(machine: Machine, missing: str) -> None:
    (machine.root / missing).unlink()
    with pytest.raises(LabError, match=missing):
        bootstrap.make_environment(machine.setup(), [])


def test_old_pythons_can_read_the_module() -> None:
    source = Path(bootstrap.__file__).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 8))


# A second run ---------------------------------------------------------------


def test_a_second_run_does_nothing(installed: Machine) -> None:
    bootstrap.make_environment(installed.setup(), [])
    assert installed.ran == []
    assert installed.probed == []


def test_another_group_is_added_in_place(installed: Machine) -> None:
    bootstrap.make_environment(installed.setup(), ["test"])
    assert installed.ran == [BUILDER, f"{COURSE}[test]"]
    assert "witness" in names(installed.root)


def test_a_group_stays_when_it_is_not_asked_for(installed: Machine) -> None:
    bootstrap.make_environment(installed.setup(), ["test"])
    (installed.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    installed.ran.clear()
    bootstrap.make_environment(installed.setup(), [])
    assert installed.ran == [BUILDER, f"{COURSE}[test]"]
    installed.ran.clear()
    bootstrap.make_environment(installed.setup(), ["test"])
    assert installed.ran == []


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml"])
def test_changed_pins_are_installed_in_place(
    installed: Machine, name: str
) -> None:
    with (installed.root / name).open("a") as file:
        file.write("# changed\n")
    bootstrap.make_environment(installed.setup(), [])
    assert installed.ran == [BUILDER, COURSE]
    assert "witness" in names(installed.root)


def test_another_torch_is_fetched_as_the_first_was(installed: Machine) -> None:
    (installed.root / "constraints.txt").write_text("torch==2.14.0\n")
    bootstrap.make_environment(installed.setup(), [])
    wanted = CPU_TORCH.replace("2.13", "2.14")
    assert installed.ran == [BUILDER, wanted, COURSE]


def test_a_moved_folder_is_made_anew(installed: Machine) -> None:
    there = installed.root / "there"
    there.mkdir()
    for name in ("constraints.txt", "pyproject.toml", ".venv"):
        (installed.root / name).rename(there / name)
    moved = Machine(there, torch="2.13.0")
    bootstrap.make_environment(moved.setup(), [])
    assert moved.ran[0] == MAKES
    assert "witness" not in names(there)


def test_a_folder_whose_python_is_gone_is_made_anew(
    installed: Machine,
) -> None:
    installed.starts = False
    bootstrap.make_environment(installed.setup(), [])
    assert installed.ran[0] == MAKES
    assert "witness" not in names(installed.root)


def test_a_folder_whose_python_was_replaced_is_made_anew(
    installed: Machine,
) -> None:
    installed.python = [3, 12]
    bootstrap.make_environment(installed.setup(), [])
    assert installed.ran[0] == MAKES


def test_what_is_installed_serves_whichever_python_asks(
    installed: Machine,
) -> None:
    setup = replace(installed.setup(), base_version=(3, 8))
    bootstrap.make_environment(setup, [])
    assert installed.ran == []


# A folder that somebody else made -------------------------------------------


@pytest.fixture
def by_hand(machine: Machine) -> Machine:
    """A machine with an environment made without this command."""
    put_interpreter(machine.root)
    (machine.root / ".venv/witness").touch()
    return machine


def test_a_folder_made_by_hand_is_filled_in_place(by_hand: Machine) -> None:
    bootstrap.make_environment(by_hand.setup(), [])
    assert by_hand.ran == [BUILDER, CPU_TORCH, COURSE]
    assert "witness" in names(by_hand.root)
    assert stamp(by_hand.root)["made_here"] is False
    assert bootstrap.FILLING not in names(by_hand.root)


def test_a_folder_made_by_hand_survives_an_interrupted_run(
    by_hand: Machine,
) -> None:
    by_hand.fails = lambda line: Outcome(1, "") if line == COURSE else None
    with pytest.raises(LabError):
        bootstrap.make_environment(by_hand.setup(), [])
    by_hand.torch = "2.13.0"  # what a killed pip left may only look whole
    by_hand.fails = lambda line: None
    by_hand.ran.clear()
    bootstrap.make_environment(by_hand.setup(), [])
    assert len(by_hand.ran) == 3
    assert all("--ignore-installed" in line for line in by_hand.ran)
    assert "witness" in names(by_hand.root)


def test_a_folder_made_by_hand_is_never_emptied(by_hand: Machine) -> None:
    bootstrap.make_environment(by_hand.setup(), [])
    by_hand.starts = False
    by_hand.ran.clear()
    with pytest.raises(LabError, match="Python does not start"):
        bootstrap.make_environment(by_hand.setup(), [])
    assert by_hand.ran == []
    assert "witness" in names(by_hand.root)


def test_a_folder_with_an_old_python_is_refused(by_hand: Machine) -> None:
    by_hand.python = [3, 10]
    with pytest.raises(LabError, match=r"holds Python 3\.10"):
        bootstrap.make_environment(by_hand.setup(), [])
    assert by_hand.ran == []


def test_a_folder_without_pip_is_given_one(by_hand: Machine) -> None:
    by_hand.has_pip = False
    bootstrap.make_environment(by_hand.setup(), [])
    assert by_hand.ran[0] == "ROOT/.venv/bin/python -m ensurepip"


def test_a_file_in_the_place_of_the_folder_is_left(machine: Machine) -> None:
    machine.setup().venv.write_text("notes")
    with pytest.raises(LabError, match="did not make"):
        bootstrap.make_environment(machine.setup(), [])
    assert machine.setup().venv.read_text() == "notes"


def test_a_damaged_stamp_is_no_stamp(installed: Machine) -> None:
    for text in ("", "{", "[]", '{"inputs": 1}'):
        (installed.root / ".venv" / bootstrap.STAMP).write_text(text)
        installed.ran.clear()
        bootstrap.make_environment(installed.setup(), [])
        assert installed.ran == [BUILDER, COURSE], text
        assert "witness" in names(installed.root)


# Interruptions and failures -------------------------------------------------


def test_an_interrupted_run_starts_with_an_empty_folder(
    machine: Machine,
) -> None:
    venv = machine.root / ".venv"
    (venv / "lib/deep").mkdir(parents=True)
    (venv / "lib/deep/half-a-package").touch()
    (venv / bootstrap.MAKING).touch()
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran[0] == MAKES
    assert names(machine.root) == {"bin", "Scripts", bootstrap.STAMP}


def test_a_run_killed_at_its_very_start_left_an_empty_folder(
    machine: Machine,
) -> None:
    (machine.root / ".venv").mkdir()
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran[0] == MAKES


def test_a_link_out_of_the_folder_is_removed_and_not_followed(
    machine: Machine,
) -> None:
    outside = machine.root / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    venv = machine.root / ".venv"
    venv.mkdir()
    (venv / "lib64").symlink_to(outside, target_is_directory=True)
    (venv / bootstrap.MAKING).touch()
    bootstrap.make_environment(machine.setup(), [])
    assert "lib64" not in names(machine.root)
    assert (outside / "kept").exists()


@pytest.mark.parametrize("failing", [MAKES, BUILDER, CPU_TORCH, COURSE])
def test_after_a_failure_anywhere_the_next_run_finishes(
    machine: Machine, failing: str
) -> None:
    def fails(line: str) -> Outcome | None:
        return Outcome(1, "") if line in (failing, ANY_TORCH) else None

    machine.fails = fails
    with pytest.raises(LabError, match="run the same command again"):
        bootstrap.make_environment(machine.setup(), [])
    assert bootstrap.MAKING in names(machine.root)
    machine.fails = lambda line: None
    machine.ran.clear()
    bootstrap.make_environment(machine.setup(), [])
    assert machine.ran == [MAKES, BUILDER, CPU_TORCH, COURSE]
    assert bootstrap.MAKING not in names(machine.root)


def test_a_failed_update_does_not_pass_for_the_old_install(
    installed: Machine,
) -> None:
    old = (installed.root / "constraints.txt").read_text()
    (installed.root / "constraints.txt").write_text(old + "a==1\n")
    installed.fails = lambda line: Outcome(1, "") if line == COURSE else None
    with pytest.raises(LabError):
        bootstrap.make_environment(installed.setup(), [])
    (installed.root / "constraints.txt").write_text(old)
    installed.fails = lambda line: None
    installed.ran.clear()
    bootstrap.make_environment(installed.setup(), [])
    assert installed.ran[0] == MAKES


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (
            "ERROR: Could not install packages due to an OSError: "
            "[Errno 28] No space left on device",
            "The disk is too full",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by "
            "'NewConnectionError(...)'\n"
            "ERROR: No matching distribution found for torch==2.13.0",
            "could not be reached",
        ),
        ("ReadTimeoutError: Read timed out.", "could not be reached"),
        ("SSLError(SSLCertVerificationError(1, '...", "PIP_CERT"),
        (
            "ERROR: Could not find a version (from versions: 2.2.2)\n"
            "ERROR: No matching distribution found for torch==2.13.0",
            "no package of this version for this machine",
        ),
        ("OSError: [Errno 13] Permission denied", "lack of permission"),
        ("ERROR: something else", "the reason printed above"),
    ],
)
def test_a_failure_of_pip_is_one_sentence(
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    printed: str,
    sentence: str,
) -> None:
    machine.fails = lambda line: (
        Outcome(1, printed) if "-e ." in line else None
    )
    assert bootstrap.guarded(machine.setup(), []) == 1
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(errno.ENOSPC, "The disk is too full"), (errno.EACCES, "mend that")],
)
def test_an_error_of_the_system_is_one_sentence(
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    number: int,
    sentence: str,
) -> None:
    def fails(line: str) -> Outcome | None:
        raise OSError(number, os.strerror(number), "/some/file")

    machine.fails = fails
    assert bootstrap.guarded(machine.setup(), []) == 1
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        bootstrap.main(["--group", "nonsense"])
    assert caught.value.code == 2


# The probe ------------------------------------------------------------------


class Page(http.server.BaseHTTPRequestHandler):
    """Answers /torch/ and nothing else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/torch/" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def index() -> Iterator[str]:
    """An index of packages on this machine."""
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        # It looks every 10 ms whether it shall end.
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def silent() -> Iterator[str]:
    """A host that takes the connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/torch/"


@pytest.fixture
def refusing() -> str:
    """A host that refuses the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/torch/"


@pytest.fixture
def babbling() -> Iterator[str]:
    """A host that answers with something that is not HTTP."""

    def answer() -> None:
        with listener.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-babble\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/torch/"


def test_an_index_that_answers_is_used(index: str) -> None:
    assert bootstrap.answers(f"{index}/torch/", 10.0)


def test_an_index_without_torch_is_not_used(index: str) -> None:
    assert not bootstrap.answers(f"{index}/nothing/", 10.0)


@pytest.mark.parametrize("host", ["silent", "refusing", "babbling"])
def test_other_hosts_are_given_up(
    host: str, request: pytest.FixtureRequest
) -> None:
    assert not bootstrap.answers(request.getfixturevalue(host), 0.3)


def test_the_limit_holds_for_the_whole_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a name server is silent, which no socket limit covers."""
    released = threading.Event()

    def fetches(url: str, timeout_s: float) -> bool:
        return not released.wait(3)

    monkeypatch.setattr(bootstrap, "fetches", fetches)
    assert not bootstrap.answers("http://nowhere.example/", 0.1)
    released.set()


def test_an_address_that_is_none_does_not_answer() -> None:
    assert not bootstrap.answers("nonsense", 10.0)


# Real processes -------------------------------------------------------------

# Runs the set-up on a real environment whose pip is the one below. At the
# step named in STOP_AT it leaves a file `reached` and stays there.
DRIVER = """
import os, sys, sysconfig, time, venv
from dataclasses import replace
from pathlib import Path
from labkit import bootstrap

root = Path(sys.argv[1])
real = bootstrap.setup_for(root)

def pause(step):
    if os.environ.get("STOP_AT") == step:
        (root / "reached").touch()
        time.sleep(600)

def run(command):
    if "venv" not in command:
        return real.run(command)
    folder = root / ".venv"
    (folder / "half-made").touch()
    pause("venv")
    (folder / "half-made").unlink()
    venv.create(folder, with_pip=False)
    where = {"base": str(folder), "platbase": str(folder)}
    pip = Path(sysconfig.get_path("purelib", "venv", where)) / "pip"
    pip.mkdir()
    (pip / "__main__.py").write_text(PIP)
    return bootstrap.Outcome(0, "")

setup = replace(real, run=run, probe=lambda url: False, platform="linux")
sys.exit(bootstrap.guarded(setup, []))
"""

# Leaves a package installed by half while it works.
PIP = """
import os, sys, time
from pathlib import Path

step = sys.argv[-1].partition("=")[0]
if "--no-index" in sys.argv:
    sys.exit(1)
packages = Path(__file__).parents[1]
(packages / "half-installed").touch()
if os.environ.get("STOP_AT") == step:
    Path("pip-process").write_text(str(os.getpid()))
    Path("reached").touch()
    time.sleep(600)
(packages / "half-installed").unlink()
(packages / ("installed-" + step)).touch()
"""

STEPS = ["venv", "setuptools", "torch", "."]


@pytest.fixture
def drive(root: Path) -> Callable[[str], subprocess.Popen[str]]:
    """Start the set-up in a process of its own that stops at a step."""

    def start(stop_at: str) -> subprocess.Popen[str]:
        code = f"PIP = {PIP!r}\n" + textwrap.dedent(DRIVER)
        return subprocess.Popen(
            [sys.executable, "-c", code, str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "STOP_AT": stop_at},
        )

    return start


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a process has made a file."""
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def kill_pip(root: Path) -> None:
    """End the pip that outlived the process which started it."""
    note = root / "pip-process"
    if note.exists():
        os.kill(int(note.read_text()), signal.SIGTERM)


def assert_finished(root: Path, second: subprocess.Popen[str]) -> None:
    """Assert that the second run ended well and left nothing by half."""
    printed = second.communicate(timeout=120)[0]
    assert second.returncode == 0, printed
    assert bootstrap.STAMP in names(root)
    assert bootstrap.MAKING not in names(root)
    found = {p.name for p in (root / ".venv").rglob("*") if p.is_file()}
    assert not found & {"half-made", "half-installed"}
    assert {f"installed-{s}" for s in STEPS[1:]} <= found


@pytest.mark.parametrize("step", STEPS)
def test_killed_anywhere_and_run_again_it_finishes(
    root: Path, drive: Callable[[str], subprocess.Popen[str]], step: str
) -> None:
    first = drive(step)
    wait_for(root / "reached", first)
    first.kill()
    kill_pip(root)
    first.communicate()
    assert bootstrap.STAMP not in names(root)
    assert_finished(root, drive(""))


@pytest.mark.parametrize("step", STEPS)
def test_interrupted_by_the_keyboard_it_says_so_and_finishes_later(
    root: Path, drive: Callable[[str], subprocess.Popen[str]], step: str
) -> None:
    first = drive(step)
    wait_for(root / "reached", first)
    first.send_signal(signal.SIGINT)
    printed = first.communicate(timeout=120)[0]
    assert first.returncode == 130
    last = printed.strip().splitlines()[-1]
    assert last == "Interrupted: run the same command again and it finishes."
    assert "Traceback" not in printed
    assert_finished(root, drive(""))


def test_a_run_waits_for_a_pip_that_outlived_the_last_one(
    root: Path, drive: Callable[[str], subprocess.Popen[str]]
) -> None:
    first = drive("setuptools")
    wait_for(root / "reached", first)
    first.kill()
    second = drive("")
    assert second.stdout is not None
    assert "waiting for its end" in second.stdout.readline()
    time.sleep(1)  # long enough to empty the folder, were it not to wait
    assert list((root / ".venv").rglob("half-installed"))
    kill_pip(root)
    first.communicate()
    assert_finished(root, second)


def test_what_a_command_prints_is_shown_and_kept(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print('out'); print('é', file=sys.stderr); sys.exit(3)"
    outcome = bootstrap.run_shown([sys.executable, "-c", code], root)
    assert outcome == Outcome(3, "é\n")
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("out\n", "é\n")
    outcome = bootstrap.run_unseen([sys.executable, "-c", code], root)
    assert outcome.status == 3
    assert sorted(outcome.text.split()) == ["out", "é"]
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")
