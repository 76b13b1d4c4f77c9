"""Submissions that try to do harm are graded, and nothing else happens.

Every cell here bounds what it does by itself, so that a limit that does not
hold costs this machine nothing.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from labkit.exercises import RunLimits, confinement, families, in_force
from labkit.exercises.judging import _symptom
from labkit.exercises.processes import End, Outcome, Step, run_steps

LIMITS = RunLimits(
    cell_s=25,
    total_s=80,
    output_bytes=200_000,
    memory_bytes=300 << 20,
    processes=24,
    file_bytes=1 << 20,
    files_bytes=4 << 20,
)
IN_FORCE = in_force(LIMITS)
POSIX = sys.platform != "win32"


def run(*cells: str) -> list[Outcome]:
    """Cells, then a cell and a test that are innocent."""
    steps = [Step(f"own {n}", "own", cell) for n, cell in enumerate(cells)]
    steps.append(Step("innocent", "own", "a = bytearray(10_000_000)"))
    steps.append(Step("check", "test", "assert len(a) == 10_000_000"))
    outcomes = run_steps(steps, LIMITS)
    assert [outcome.end for outcome in outcomes[-2:]] == ["ok", "ok"]
    return outcomes[:-2]


def in_a_process(code: str) -> str:
    """A cell that runs code in a Python of its own, without the hook."""
    return (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {code!r}])"
    )


HARM = {
    "8 GB at once": ("x = bytearray(8 << 30)", "memory"),
    "ever more memory": (
        "x = []\nwhile len(x) < 800: x.append(b'x' * 10_000_000)",
        "memory",
    ),
    "memory of many processes": (
        "import subprocess, sys, time\n"
        "code = \"import time; x = b'x' * 80_000_000; time.sleep(20)\"\n"
        "run = [sys.executable, '-c', code]\n"
        "many = [subprocess.Popen(run) for _ in range(8)]\n"
        "time.sleep(20)",
        "memory",
    ),
    "200 processes": (
        "import subprocess, sys\n"
        "run = [sys.executable, '-c', 'import time; time.sleep(20)']\n"
        "many = [subprocess.Popen(run) for _ in range(200)]",
        "processes",
    ),
    "many files": (
        "for n in range(200):\n"
        "    with open(f'{n}.bin', 'wb') as file:\n"
        "        file.write(b'x' * 900_000)",
        "files",
    ),
    "many empty files": (
        "for n in range(9000): open(f'{n}', 'w').close()",
        "files",
    ),
    "temporary files": (
        "import tempfile\n"
        "for n in range(200):\n"
        "    with tempfile.NamedTemporaryFile(delete=False) as file:\n"
        "        file.write(b'x' * 900_000)",
        "files",
    ),
    "a gigabyte of output": ("print('x' * 1_000_000_000)", "memory"),
    "output without end": ("while True: print('x' * 1000)", "output"),
    "a connection": (
        "import socket\nsocket.create_connection(('192.0.2.1', 80), 5)",
        "PermissionError",
    ),
    "a name to look up": (
        "import socket\nsocket.getaddrinfo('example.org', 80)",
        "PermissionError",
    ),
    "leaving": ("import os\nos._exit(0)", "died"),
}
if POSIX:
    HARM["200 forks"] = (
        "import os, time\n"
        "for _ in range(200):\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(20)\n"
        "        os._exit(0)\n",
        "processes",
    )
    HARM["forks of forks"] = (
        "import os, time\n"
        "for _ in range(7): os.fork()\n"
        "time.sleep(20)\n"
        "os._exit(0)",
        "processes",
    )
    HARM["one large file"] = (
        "with open('large', 'wb') as file:\n"
        "    for _ in range(100): file.write(b'x' * 1_000_000)",
        "OSError",
    )


@pytest.mark.parametrize(("cell", "end"), HARM.values(), ids=HARM.keys())
def test_harm_costs_the_cell_that_does_it_and_no_other(
    cell: str, end: str
) -> None:
    (outcome,) = run(cell)
    assert end in (outcome.end, outcome.error)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("memory", "it needed more memory than 300 MiB"),
        ("processes", "it started more than 24 processes"),
        ("files", "it wrote more files than 4 MiB"),
        ("output", "it printed more than 200,000 bytes"),
    ],
)
def test_a_limit_that_was_passed_is_told_in_words(
    end: End, words: str
) -> None:
    assert _symptom(Outcome(end), LIMITS) == words


def test_a_server_of_one_s_own_can_be_asked() -> None:
    cell = (
        "import http.server, threading, urllib.request\n"
        "server = http.server.HTTPServer(\n"
        "    ('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "url = f'http://127.0.0.1:{server.server_port}/'\n"
        "assert urllib.request.urlopen(url).status == 200"
    )
    assert run(cell) == [Outcome("ok")]


def test_the_network_is_as_it_is_said_to_be() -> None:
    # By a process without the audit hook, to a port that is open here.
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        code = (
            "import socket; socket.create_connection("
            f"('127.0.0.1', {server.getsockname()[1]}), 5)"
        )
        run(in_a_process(code))
        try:
            server.accept()[0].close()
            reached = True
        except TimeoutError:
            reached = False
    assert reached == IN_FORCE.startswith("Network: on")


def test_where_a_user_may_unshare_the_network_is_off() -> None:
    tried = subprocess.run(
        "unshare --user --map-root-user --net true",  # of util-linux
        shell=True,
        capture_output=True,
        check=False,
    )
    if tried.returncode == 0:
        assert "Network: off" in IN_FORCE


def grader(cell: str) -> bool:
    """Whether a grader outlives the cell; `GRADER` is its process id."""
    script = (
        "import os\n"
        "from labkit.exercises.processes import RunLimits, Step, run_steps\n"
        f"cell = {cell!r}.replace('GRADER', str(os.getpid()))\n"
        "steps = [Step('own', 'own', cell), Step('check', 'test', 'pass')]\n"
        "print([o.end for o in run_steps(steps, RunLimits())])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode == 0 and done.stdout.endswith(", 'ok']\n")


def test_the_grader_cannot_be_killed() -> None:
    assert grader("import os, signal\nos.kill(GRADER, signal.SIGTERM)")
    assert grader("import os, signal\nos.kill(os.getppid(), signal.SIGTERM)")


def test_the_grader_is_as_far_away_as_it_is_said_to_be() -> None:
    code = "import os, sys; os.kill(GRADER, 15)"
    lives = grader(in_a_process(code))
    assert lives == ("apart from others" in IN_FORCE)


if POSIX:

    def test_a_daemon_ends_where_processes_are_apart(tmp_path: Path) -> None:
        token = uuid4().hex
        code = (
            "import os, sys, subprocess\n"
            "os.setsid()\n"
            "run = [sys.executable, '-c', 'import time; time.sleep(30)']\n"
            f"subprocess.Popen([*run, {token!r}], start_new_session=True)"
        )
        run(in_a_process(code))
        left = [
            process
            for process in psutil.process_iter(["cmdline"])
            if token in (process.info["cmdline"] or ())
        ]
        for process in left:
            process.kill()
        assert bool(left) == ("not set apart" in IN_FORCE)


REFUSED = [
    ("socket.connect", (None, ("192.0.2.1", 80))),
    ("socket.connect", (None, ("2001:db8::1", 80, 0, 0))),
    ("socket.sendto", (None, ("192.0.2.1", 80))),
    ("socket.sendmsg", (None, ("192.0.2.1", 80))),
    ("socket.getaddrinfo", ("example.org", 80, 0, 0, 0)),
    ("socket.gethostbyname", ("example.org",)),
    ("os.kill", (os.getppid(), 9)),
    ("os.kill", (-1, 9)),
    ("os.kill", (2**70, 9)),
    ("os.killpg", (os.getppid(), 9)),
]
ALLOWED = [
    ("socket.connect", (None, ("127.0.0.1", 80))),
    ("socket.connect", (None, ("::1", 80, 0, 0))),
    ("socket.connect", (None, "/a/unix/socket")),
    ("socket.sendmsg", (None, None)),
    ("socket.getaddrinfo", (None, 80, 0, 0, 0)),
    ("socket.getaddrinfo", (b"localhost", 80, 0, 0, 0)),
    ("os.kill", (os.getpid(), 15)),
    ("os.killpg", (os.getpid(), 9)),
    ("open", ("a file", "r", 0)),
]


@pytest.mark.parametrize(("event", "arguments"), REFUSED)
def test_the_hook_refuses(event: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(PermissionError):
        confinement._refusals(os.getpid())(event, arguments)


@pytest.mark.parametrize(("event", "arguments"), ALLOWED)
def test_the_hook_allows(event: str, arguments: tuple[object, ...]) -> None:
    confinement._refusals(os.getpid())(event, arguments)


def test_a_process_that_was_started_may_be_signalled() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    with child:
        confinement._refusals(os.getpid())("os.kill", (child.pid, 15))
        child.kill()


def test_files_and_folders_are_counted_however_deep(
    tmp_path: Path,
) -> None:
    deep = tmp_path
    for _ in range(40):
        deep /= "folder"
        deep.mkdir()
    (deep / "file").write_bytes(b"x" * 1_000_000)
    if POSIX:  # on Windows not everybody may make one
        (deep / "link").symlink_to(Path(sys.executable).parent)
    links = int(POSIX)
    found = families.written(tmp_path, 1 << 30)
    assert found >= 1_000_000 + (40 + links) * 16_384
    assert found < 3_000_000
    assert families.written(tmp_path, 100_000) < 200_000
    assert families.written(tmp_path / "none", 1) == 0


def test_folders_that_are_hidden_look_empty(tmp_path: Path) -> None:
    (tmp_path / "key.ipynb").write_text("the solution", encoding="utf-8")
    apart = "apart from others" in IN_FORCE
    seen: list[str] = [] if apart else ["key.ipynb"]
    steps = [
        Step("own", "own", f"import os\nseen = os.listdir({str(tmp_path)!r})"),
        Step("check", "test", f"assert seen == {seen!r}, seen"),
    ]
    hidden = (tmp_path, tmp_path / "is not there")
    outcomes = run_steps(steps, replace(LIMITS, hidden=hidden))
    assert [outcome.end for outcome in outcomes] == ["ok", "ok"]
    assert (tmp_path / "key.ipynb").is_file()
