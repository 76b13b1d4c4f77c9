"""Make `.venv` and install the course: ``python3 -m labkit.bootstrap``.

The Makefile runs this before anything is installed, with whatever `python3`
is. Hence the standard library only, and nothing that Python 3.8 cannot
parse: an interpreter that is too old has to be able to say so.

Three files in `.venv` tell how far an earlier run came:

``labkit-installed.json``
    the stamp: what was installed, from which pins, by whom the folder was
    made. Written last, by renaming a marker, so there is never half a stamp.
``labkit-making``
    a marker: an install is under way in a folder that this module made. Found
    at the start, the earlier run was interrupted and the folder is made anew.
``labkit-filling``
    the same in a folder that somebody else made, as the route without `make`
    does. Such a folder is installed into and never emptied.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import http.client
import importlib.util
import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from labkit.errors import LabError

OLDEST, NEWEST = (3, 11), (3, 13)
GROUPS = ("peers", "site", "test")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PROBE_TIMEOUT_S = 5.0
NEEDED_BYTES = 2_000_000_000  # .venv without groups, and pip's downloads

STAMP = "labkit-installed.json"
MAKING = "labkit-making"
FILLING = "labkit-filling"

# Asked of the interpreter in `.venv`, which is also the test that it starts.
QUESTION = """
import importlib.metadata, importlib.util, json, sys
try:
    torch = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    torch = None
print(json.dumps({
    "python": list(sys.version_info[:2]),
    "has_pip": importlib.util.find_spec("pip") is not None,
    "torch": torch,
}))
"""

DISK_FULL = (
    "The disk is too full: free about 3 GB, then run the same command again."
)
NO_PERMISSION = (
    "A file could not be written for lack of permission: run this in a copy "
    "of the course that belongs to you."
)

# What pip printed, and what to tell the person; the first that fits.
TROUBLES = (
    (
        r"No space left on device|Errno 28|not enough space on the disk",
        DISK_FULL,
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "The package index's certificate was not accepted: set PIP_CERT to "
        "the certificate file of your network, then run the same command "
        "again.",
    ),
    (
        r"NewConnectionError|NameResolutionError|ConnectTimeoutError"
        r"|ConnectTimeout|ReadTimeoutError|Read timed out|ProxyError"
        r"|Max retries exceeded|Network is unreachable|ConnectionResetError"
        r"|IncompleteRead|Could not fetch URL",
        "The package index could not be reached: check the network (behind a "
        "proxy, set HTTPS_PROXY), then run the same command again.",
    ),
    (
        r"Errno 13|Permission denied|Access is denied",
        NO_PERMISSION,
    ),
    (
        r"No matching distribution found for torch",
        "PyTorch publishes no package of this version for this machine: it "
        "has them for Linux (x86-64 and ARM, glibc 2.28 or newer), macOS 14 "
        "or newer on Apple silicon, and 64-bit Windows on x86-64; elsewhere "
        "open the course on Binder.",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and the text of it that was kept."""

    status: int
    text: str


class Run(Protocol):
    """Run a command in the root of the tree and wait for its end."""

    def __call__(self, command: Sequence[str], /) -> Outcome: ...


class Probe(Protocol):
    """Say whether an address answers."""

    def __call__(self, url: str, /) -> bool: ...


class Say(Protocol):
    """Tell the person one sentence."""

    def __call__(self, sentence: str, /) -> None: ...


def python_in(venv: Path, platform: str) -> Path:
    """The interpreter inside a virtual environment."""
    windows = platform == "win32"
    return venv / ("Scripts/python.exe" if windows else "bin/python")


def not_here(
    root: Path, arguments: Sequence[str], platform: str = sys.platform
) -> str:
    """What to run when this interpreter has not the course's packages."""
    python = python_in(root / ".venv", platform)
    if not python.exists() or Path(sys.prefix) == root / ".venv":
        return "The course is not set up here: run `make lab` first."
    with contextlib.suppress(ValueError):  # on another drive of Windows
        python = Path(os.path.relpath(python))
    quoted = subprocess.list2cmdline if platform == "win32" else shlex.join
    command = quoted([str(python), "-m", "labkit", *arguments])
    return f"This Python has not the course's packages: run `{command}`."


@dataclass(frozen=True)
class Setup:
    """Everything outside that an install touches.

    `run` shows what the command prints and keeps its standard error; `ask`
    shows nothing and keeps all of it.
    """

    root: Path
    run: Run
    ask: Run
    probe: Probe
    say: Say
    base_python: str = sys.executable
    base_version: tuple[int, int] = sys.version_info[:2]
    platform: str = sys.platform
    cpu_index: str = CPU_INDEX
    pip_options: tuple[str, ...] = ()

    @property
    def venv(self) -> Path:
        """The folder that is made."""
        return self.root / ".venv"

    @property
    def python(self) -> str:
        """The interpreter inside that folder."""
        return str(python_in(self.venv, self.platform))

    def pip(self, *arguments: str) -> list[str]:
        """Return the command line of an install by the folder's own pip.

        Bytecode is left to the first import: compiling all of it takes
        longer than the rest of the install, and most is never imported.
        """
        options = ["--no-compile", *self.pip_options]
        return [self.python, "-m", "pip", "install", *options, *arguments]


@dataclass(frozen=True)
class Stamp:
    """What a finished install was made of."""

    inputs: str  # SHA-256 of the two files that decide what is installed
    groups: list[str]
    python: list[int]
    folder: str  # scripts in an environment hold its path: moved, it breaks
    made_here: bool


@dataclass(frozen=True)
class Facts:
    """What the interpreter in `.venv` says of itself."""

    python: list[int]
    has_pip: bool
    torch: str | None


def main(argv: Sequence[str] | None = None) -> int:
    """Install what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 -m labkit.bootstrap",
        description="Make .venv and install the course into it.",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        choices=GROUPS,
        help="an optional group of pyproject.toml to install as well",
    )
    groups = parser.parse_args(argv).group
    root = Path(__file__).resolve().parent.parent
    return guarded(setup_for(root), groups)


def setup_for(root: Path) -> Setup:
    """Return the real surroundings of the tree at `root`."""

    def run(command: Sequence[str]) -> Outcome:
        return run_shown(command, root)

    def ask(command: Sequence[str]) -> Outcome:
        return run_unseen(command, root)

    def probe(url: str) -> bool:
        return answers(url, PROBE_TIMEOUT_S)

    def say(sentence: str) -> None:
        print(sentence, flush=True)

    # Progress bars for a person; a log needs only what went wrong.
    quiet = () if sys.stdout.isatty() else ("--quiet",)
    return Setup(root, run, ask, probe, say, pip_options=quiet)


def guarded(setup: Setup, groups: Sequence[str]) -> int:
    """Make the environment; turn whatever goes wrong into one sentence."""
    try:
        with alone(setup.root / "pyproject.toml", setup.say):
            make_environment(setup, groups)
    except KeyboardInterrupt:
        sentence = "Interrupted: run the same command again and it finishes."
        print("\n" + sentence, file=sys.stderr)
        return 130
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(explain_os_error(error), file=sys.stderr)
        return 1
    return 0


def make_environment(setup: Setup, groups: Sequence[str]) -> None:
    """Bring `.venv` to the state that the two files and `groups` ask for.

    Groups that an earlier run installed stay. Raises LabError when the
    folder cannot be used or an install fails.
    """
    inputs = read_inputs(setup.root)
    stamp = read_stamp(setup.venv)
    facts = ask_interpreter(setup)
    if stamp and is_current(stamp, setup, inputs, groups, facts):
        setup.say("The environment in .venv is ready.")
        return
    wanted = sorted({*groups, *(stamp.groups if stamp else ())})
    ours = is_ours(setup.venv, stamp)
    if ours and not is_sound(stamp, setup, facts):
        facts = make_folder(setup)
    if facts is None or not in_range(facts.python):
        raise LabError(unusable_folder(facts))
    fill_folder(setup, facts, wanted, ours)
    finish(
        setup.venv / (MAKING if ours else FILLING),
        Stamp(inputs, wanted, facts.python, folder_of(setup), ours),
    )
    setup.say("The environment in .venv is ready.")


# What is there --------------------------------------------------------------


def read_inputs(root: Path) -> str:
    """Return the SHA-256 of the files that decide what is installed."""
    digest = hashlib.sha256()
    for name in ("constraints.txt", "pyproject.toml"):
        path = root / name
        if not path.is_file():
            raise LabError(
                f"{name} is not in {root}: run this in a complete copy of "
                "the course."
            )
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def read_stamp(venv: Path) -> Stamp | None:
    """Return the stamp of the last finished install, if that was the last."""
    if (venv / MAKING).exists() or (venv / FILLING).exists():
        return None
    try:
        text = (venv / STAMP).read_text(encoding="utf-8")
        return Stamp(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def ask_interpreter(setup: Setup) -> Facts | None:
    """Return what the interpreter in `.venv` says, None if it is silent."""
    if not Path(setup.python).exists():
        return None
    try:
        outcome = setup.ask([setup.python, "-c", QUESTION])
        return Facts(**json.loads(outcome.text.splitlines()[-1]))
    except (OSError, ValueError, TypeError, IndexError):
        return None


def is_current(
    stamp: Stamp,
    setup: Setup,
    inputs: str,
    groups: Sequence[str],
    facts: Facts | None,
) -> bool:
    """Whether the finished install is the one wanted now."""
    return (
        stamp.inputs == inputs
        and set(groups) <= set(stamp.groups)
        and is_sound(stamp, setup, facts)
    )


def is_sound(stamp: Stamp | None, setup: Setup, facts: Facts | None) -> bool:
    """Whether the folder is finished, where it was, and its Python starts."""
    return (
        stamp is not None
        and facts is not None
        and stamp.python == facts.python
        and stamp.folder == folder_of(setup)
    )


def is_ours(venv: Path, stamp: Stamp | None) -> bool:
    """Whether this module made, or is to make, the folder."""
    if not venv.exists() or (venv / MAKING).exists():
        return True
    if stamp is not None:
        return stamp.made_here
    return venv.is_dir() and not any(venv.iterdir())


def folder_of(setup: Setup) -> str:
    """Return the path that scripts inside the environment refer to."""
    return str(setup.venv.resolve())


def in_range(version: Sequence[int]) -> bool:
    """Whether the course runs on this version of Python."""
    return OLDEST <= tuple(version[:2]) <= NEWEST


def unusable_folder(facts: Facts | None) -> str:
    """Say why a folder that somebody else made cannot be installed into."""
    what = "its Python does not start"
    if facts is not None:
        what = "it holds Python {}.{}".format(*facts.python)
    return (
        f"There is a .venv that this command did not make, and {what}: "
        "rename or remove that folder, then run the same command again."
    )


# Making and filling the folder ----------------------------------------------


def make_folder(setup: Setup) -> Facts:
    """Make the environment anew, in an empty folder; the marker stays."""
    check_base_python(setup)
    setup.venv.mkdir(exist_ok=True)
    marker = setup.venv / MAKING
    marker.touch()
    empty_folder(setup.venv, keep=marker)
    if free_bytes(setup.venv) < NEEDED_BYTES:
        raise LabError(DISK_FULL)
    setup.say("Making .venv with Python {}.{}.".format(*setup.base_version))
    command = [setup.base_python, "-m", "venv", str(setup.venv)]
    must(setup.run(command), "Making .venv")
    facts = ask_interpreter(setup)
    if facts is None:
        raise LabError(
            "The Python in the new .venv does not start: try another one, "
            "as in `make lab PYTHON=python3.12`."
        )
    return facts


def check_base_python(setup: Setup) -> None:
    """Raise LabError when this Python cannot make the environment."""
    version = "{}.{}".format(*setup.base_version)
    if not in_range(setup.base_version):
        raise LabError(
            "The course runs on Python 3.11, 3.12 and 3.13, and this is "
            f"{version}: install one of those and name it, as in `make lab "
            "PYTHON=python3.12`."
        )
    missing = [m for m in ("venv", "ensurepip") if not has_module(m)]
    if missing:
        raise LabError(
            f"This Python lacks the module {missing[0]}: on Debian and "
            f"Ubuntu install it with `sudo apt install python{version}-venv`"
            ", then run the same command again."
        )


def free_bytes(folder: Path) -> int:
    """Return how much more the disk of `folder` can hold."""
    return shutil.disk_usage(folder).free


def has_module(name: str) -> bool:
    """Whether the standard library of this Python holds the module."""
    return importlib.util.find_spec(name) is not None


def empty_folder(folder: Path, keep: Path) -> None:
    """Delete everything in `folder` but the file `keep`.

    The marker outlives the rest, so that a folder emptied by half is still
    known for what it is.
    """
    for child in folder.iterdir():
        if child == keep:
            continue
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()


def fill_folder(
    setup: Setup, facts: Facts, groups: Sequence[str], ours: bool
) -> None:
    """Install everything into the folder, with the marker set meanwhile."""
    marker = setup.venv / (MAKING if ours else FILLING)
    resumed = marker.exists() and not ours
    marker.touch()
    # A killed pip can leave a package that looks installed and is not.
    options = ["--ignore-installed"] if resumed else []
    if not facts.has_pip:
        must(setup.run([setup.python, "-m", "ensurepip"]), "Installing pip")
    install_builder(setup, options)
    version = torch_version(setup.root / "constraints.txt")
    has_torch = facts.torch is not None and same_release(facts.torch, version)
    if setup.platform == "linux" and (resumed or not has_torch):
        install_torch(setup, version, options)
    install_course(setup, groups, options)


def finish(marker: Path, stamp: Stamp) -> None:
    """Turn the marker into the stamp, in one step."""
    marker.write_text(json.dumps(asdict(stamp), indent=1), encoding="utf-8")
    marker.replace(marker.with_name(STAMP))


# What pip installs ----------------------------------------------------------


def torch_version(constraints: Path) -> str:
    """Return the pinned version of torch, such as 2.13.0."""
    text = constraints.read_text(encoding="utf-8")
    found = re.search(r"^torch==([0-9.]+)", text, re.MULTILINE)
    if found is None:
        raise LabError(f"{constraints} has no line that starts with torch==.")
    return found.group(1)


def same_release(installed: str, wanted: str) -> bool:
    """Whether the two differ at most in the local suffix (2.13.0+cpu)."""
    return installed.split("+", maxsplit=1)[0] == wanted


def install_builder(setup: Setup, options: Sequence[str]) -> None:
    """Install the pinned setuptools, which builds the course.

    With it the course needs no build environment of its own, so an install
    in place needs no network when all its packages are there already. Before
    torch, whose missing companions pip would report as an error.
    """
    command = setup.pip(*options, "-c", "constraints.txt", "setuptools")
    must(setup.run(command), "Installing setuptools")


def install_torch(setup: Setup, version: str, options: Sequence[str]) -> None:
    """Install PyTorch alone, and its CPU build if there is any way.

    On Linux the package index holds the CUDA build, which brings several GB.
    So PyTorch's own index of CPU builds comes first, then a package on this
    machine (pip's find-links), and the package index last.
    """
    wanted = ["--no-deps", *options, f"torch=={version}"]
    if setup.probe(f"{setup.cpu_index}/torch/"):
        setup.say(f"Installing PyTorch {version}, the CPU build (190 MB).")
        patience = ["--retries", "0", "--timeout", "15"]
        index = ["--index-url", setup.cpu_index]
        if worked(setup.run(setup.pip(*index, *patience, *wanted))):
            return
    setup.say(
        f"{setup.cpu_index} cannot be used from here: looking for PyTorch "
        f"{version} on this machine."
    )
    if worked(setup.ask(setup.pip("--no-index", *wanted))):
        return
    setup.say(
        f"It is not there: installing PyTorch {version} from your package "
        "index. On Linux that is the CUDA build, several GB with what it "
        "needs."
    )
    must(setup.run(setup.pip(*wanted)), "Installing PyTorch")


def install_course(
    setup: Setup, groups: Sequence[str], options: Sequence[str]
) -> None:
    """Install the course, editable, with all that it needs."""
    setup.say("Installing the course and the packages it needs.")
    course = ".[{}]".format(",".join(groups)) if groups else "."
    command = setup.pip(
        *options, "-c", "constraints.txt", "--no-build-isolation", "-e", course
    )
    must(setup.run(command), "Installing the course")


def worked(outcome: Outcome) -> bool:
    """Whether a command that has a substitute did its work.

    Raises LabError on a full disk, which no substitute helps.
    """
    if outcome.status != 0 and trouble(outcome.text) == DISK_FULL:
        raise LabError(DISK_FULL)
    return outcome.status == 0


def must(outcome: Outcome, what: str) -> None:
    """Raise LabError with the likely cause when a command failed."""
    if outcome.status == 0:
        return
    raise LabError(
        trouble(outcome.text)
        or f"{what} failed, for the reason printed above: once that is mended,"
        " run the same command again."
    )


def trouble(text: str) -> str | None:
    """Return the sentence for the trouble that pip's output shows, if any."""
    for pattern, sentence in TROUBLES:
        if re.search(pattern, text):
            return sentence
    return None


def explain_os_error(error: OSError) -> str:
    """Return one sentence for an error of the operating system."""
    if error.errno == errno.ENOSPC:
        return DISK_FULL
    where = f" ({error.filename})" if error.filename else ""
    return (
        f"The environment could not be made: {error.strerror}{where}; mend "
        "that, then run the same command again."
    )


# The world outside ----------------------------------------------------------


def answers(url: str, timeout_s: float) -> bool:
    """Whether the address gives a page, asked once.

    The limit holds for the whole question. A thread of its own is asked to
    wait, since a slow name server, or several addresses of one host, know
    nothing of the limit of a socket.
    """
    found: list[bool] = []
    asking = threading.Thread(
        target=lambda: found.append(fetches(url, timeout_s)), daemon=True
    )
    asking.start()
    asking.join(timeout_s)
    return found == [True]


def fetches(url: str, timeout_s: float) -> bool:
    """Whether a request for the address succeeds."""
    try:
        request = urllib.request.Request(  # noqa: S310 - the address is ours
            url, headers={"User-Agent": "labkit"}
        )
        with urllib.request.urlopen(  # noqa: S310 - the address is ours
            request, timeout=timeout_s
        ):
            return True
    except urllib.error.URLError as error:
        # The host is there. pip has certificates of its own: let it try.
        return isinstance(error.reason, ssl.SSLError)
    except (OSError, ValueError, http.client.HTTPException):
        return False


@contextlib.contextmanager
def alone(path: Path, say: Say) -> Iterator[None]:
    """Hold the lock on `path`, so that two runs never fill one folder.

    The commands that are started inherit the lock: a pip that outlives a
    killed run still holds it. Not on Windows, where nothing calls this twice.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("rb") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another run is at work on .venv: waiting for its end.")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks: do without
        yield


def run_shown(command: Sequence[str], root: Path) -> Outcome:
    """Run a command, show what it prints, keep its standard error."""
    kept: list[str] = []
    with subprocess.Popen(
        command,
        cwd=root,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        close_fds=False,  # the lock goes with it
    ) as process:
        try:
            for line in process.stderr or ():
                kept.append(line)
                sys.stderr.write(line)
                sys.stderr.flush()
        except KeyboardInterrupt:
            process.terminate()
            raise
    return Outcome(process.returncode, "".join(kept))


def run_unseen(command: Sequence[str], root: Path) -> Outcome:
    """Run a command, show nothing of it, keep all that it prints."""
    done = subprocess.run(
        command,
        cwd=root,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        close_fds=False,
        check=False,
    )
    return Outcome(done.returncode, done.stdout)


def environment() -> dict[str, str]:
    """Return the environment of the commands: pip neither asks nor strays."""
    settings = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_USER": "0",
        "PYTHONIOENCODING": "utf-8",
    }
    return {**os.environ, **settings}


if __name__ == "__main__":
    sys.exit(main())
