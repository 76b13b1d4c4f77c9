"""Steps in a process of their own: limits, and what a test can see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from labkit.exercises import processes, runner
from labkit.exercises.processes import Outcome, RunLimits, Step, run_steps
from labkit.progress import HEADLESS

LIMITS = RunLimits(cell_s=30, total_s=90, output_bytes=200_000)
IMPATIENT = RunLimits(cell_s=1.0, total_s=90, output_bytes=200_000)


def own(source: str, name: str = "own") -> Step:
    return Step(name, "own", source)


def check(source: str, name: str = "check") -> Step:
    return Step(name, "test", source)


def ends(steps: list[Step], limits: RunLimits = LIMITS) -> list[str]:
    return [outcome.end for outcome in run_steps(steps, limits)]


def test_steps_share_names_and_an_error_stops_nothing() -> None:
    assert ends(
        [
            own("a = 1"),
            own("b = a / 0"),
            own("b = a + 1"),
            check("assert b == 2"),
            check("assert b == 3"),
            check("assert b + a == 3"),
        ]
    ) == ["ok", "error", "ok", "ok", "error", "ok"]


def test_an_error_is_told_with_the_learner_s_line() -> None:
    steps = [
        own("def f(x):\n    y = x\n    return y['k']", "answer"),
        check("f({'k': 1})\nf([])"),
        own("x = (", "open"),
        check("assert 1 == 2, 'one is not two'"),
    ]
    first, second, third, fourth = run_steps(steps, LIMITS)
    assert first == Outcome("ok")
    assert (second.error, second.cell, second.line) == (
        "TypeError",
        "answer",
        3,
    )
    assert (third.error, third.cell, third.line) == ("SyntaxError", "open", 1)
    assert fourth == Outcome(
        "error", "AssertionError", "one is not two", test_line=1
    )
    assert second.test_line == 2


def test_notebook_syntax_works_as_in_jupyterlab() -> None:
    steps = [
        own("%time a = 1"),
        own("import asyncio\nawait asyncio.sleep(0)\nb = 2"),
        own("!echo hello"),
        own("%%capture out\nprint('kept')"),
        own("%matplotlib inline"),
        own("from IPython.display import display, HTML\ndisplay(HTML('x'))"),
        check("assert (a, b, out.stdout) == (1, 2, 'kept\\n')"),
    ]
    assert ends(steps) == ["ok"] * 7


def test_a_step_that_never_ends_is_set_aside() -> None:
    steps = [
        own("a = 1"),
        own(
            "while True:\n    try:\n        while True: pass\n"
            "    except BaseException: pass"
        ),
        own("b = a + 1"),
        check("assert (a, b) == (1, 2)"),
        check("import time\ntime.sleep(1000)"),
        check("assert b == 2"),
    ]
    assert ends(steps, IMPATIENT) == ["ok", "time", "ok", "ok", "time", "ok"]


def test_a_cell_that_closes_the_replies_is_stopped_in_time() -> None:
    # Without a limit the sleep would end by itself, and the process with
    # it: "died" instead of "time".
    cell = "import os, time\nos.closerange(3, 64)\ntime.sleep(20)"
    steps = [own(cell), check("assert True")]
    assert ends(steps, IMPATIENT) == ["time", "ok"]


def test_the_time_for_all_steps_is_limited() -> None:
    limits = RunLimits(cell_s=500, total_s=4)
    steps = [own("import time\ntime.sleep(1000)"), check("pass")]
    assert ends(steps, limits) == ["time", "not run"]


@pytest.mark.parametrize(
    "flood",
    [
        "while True: print('x' * 1000)",
        "print('x' * 50_000_000)",
        "import os\nwhile True: os.write(1, b'x' * 1000)",
        "import os\nwhile True: os.write(2, b'x' * 1000)",
        "'x' * 50_000_000",
    ],
)
def test_a_flood_of_output_is_stopped(flood: str) -> None:
    steps = [own(flood), own("a = 1"), check("assert a == 1")]
    assert ends(steps) == ["output", "ok", "ok"]


@pytest.mark.parametrize(
    "leave",
    [
        "import os\nos._exit(0)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
        "import ctypes\nctypes.string_at(0)",
    ],
)
def test_ending_the_process_ends_only_that_step(leave: str) -> None:
    steps = [
        own("a = 1"),
        own(leave),
        own("def f():\n    import os\n    os._exit(0)"),
        check("assert a == 1"),
        check("f()"),
        check("assert a == 1"),
    ]
    assert ends(steps) == ["ok", "died", "ok", "ok", "died", "ok"]


@pytest.mark.parametrize("leave", ["raise SystemExit", "exit()", "quit(0)"])
def test_leaving_politely_is_an_error(leave: str) -> None:
    steps = [
        own(leave),
        own(f"def f():\n    {leave}"),
        check("assert True"),
        check("f()"),
    ]
    assert ends(steps) == ["error", "ok", "ok", "error"]


FALSE = "assert all([False]), 'never true'"
TRICKS = {
    "builtins": "import builtins\n"
    "builtins.all = builtins.exec = lambda *_: True\n"
    "builtins.AssertionError = ValueError",
    "builtins in a dictionary": "__builtins__ = {'all': lambda _: True}",
    "a name of its own": "def all(values): return True",
    "names that are no text": "class K(str):\n"
    "    __hash__ = lambda s: hash('all')\n"
    "    __eq__ = lambda s, o: True\n"
    "globals()[K('z')] = lambda _: True",
    "shell hooks": "shell = get_ipython()\n"
    "shell.input_transformers_post.append(lambda lines: [])\n"
    "shell.run_cell = lambda *_, **__: None\n"
    "shell.showtraceback = lambda *_, **__: None",
    "an AST hook": "import ast\n"
    "class Drop(ast.NodeTransformer):\n"
    "    def visit_Assert(self, node): return None\n"
    "get_ipython().ast_transformers.append(Drop())",
    "json and os": "import json, os\n"
    "json.dumps = lambda *_: 'ok'\n"
    "os.write = lambda *_: 0",
    "replies on every descriptor": "import os\n"
    "for n in range(3, 30):\n"
    "    try: os.write(n, b'ok\\n' * 3)\n"
    "    except OSError: pass",
    "a trace function": "import sys\n"
    "def trace(frame, event, arg):\n"
    "    frame.f_globals['all'] = lambda _: True\n"
    "    return trace\n"
    "sys.settrace(trace)",
    "a fork": "import os\nif hasattr(os, 'fork'): os.fork()",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_no_trick_makes_a_false_assertion_pass(trick: str) -> None:
    steps = [own(trick), check(FALSE), check("assert True")]
    assert ends(steps) == ["ok", "error", "ok"]


def test_asserts_count_where_python_is_told_to_drop_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    steps = [own("assert False"), check("assert False"), check("assert True")]
    assert ends(steps) == ["error", "error", "ok"]


def test_asserts_of_a_test_count_in_an_optimizing_interpreter() -> None:
    job = [{"name": "check", "kind": "test", "source": "assert False"}]
    done = subprocess.run(
        [sys.executable, "-O", "-P", runner.__file__, str(os.getpid())],
        input=json.dumps(job) + "\n0 token\n",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    ready, reply = done.stdout.splitlines()
    assert (ready, reply[:11]) == ("ready", "token error")


def test_annotations_are_evaluated_as_in_a_notebook() -> None:
    look = "def f(x: int): pass\nassert f.__annotations__ == {'x': int}"
    assert ends([own(look), check(look)]) == ["ok", "ok"]


def test_cells_know_that_nobody_watches() -> None:
    cell = f"import os\nassert os.environ[{HEADLESS!r}]"
    assert ends([own(cell)]) == ["ok"]


def test_given_names_are_the_source_s_in_a_test() -> None:
    steps = [
        own("LIMIT = 3"),
        Step("given", "given", "LIMIT = 3\ndef twice(n): return 2 * n"),
        own("seen = twice(LIMIT)\nLIMIT = 99\ndef twice(n): return n"),
        check("assert (seen, LIMIT, twice(4)) == (6, 3, 8)"),
    ]
    assert ends(steps) == ["ok"] * 4


def test_names_of_one_test_are_gone_in_the_next() -> None:
    assert ends([check("kept = 1"), check("kept")]) == ["ok", "error"]


def test_files_lie_in_a_folder_that_is_not_the_original(
    tmp_path: Path,
) -> None:
    (tmp_path / "given.txt").write_text("42", encoding="utf-8")
    (tmp_path / "mine.py").write_text("x = 1", encoding="utf-8")
    (tmp_path / "colorsys.py").write_text("ours = 0", encoding="utf-8")
    cell = (
        "import pathlib, mine, colorsys\n"
        "text = pathlib.Path('given.txt').read_text()\n"
        "pathlib.Path('given.txt').unlink()\n"
        "pathlib.Path('new.txt').touch()"
    )
    steps = [
        own(cell),
        check("assert (text, mine.x) == ('42', 1)"),
        check("assert not hasattr(colorsys, 'ours')"),
    ]
    outcomes = run_steps(steps, LIMITS, tmp_path)
    assert [outcome.end for outcome in outcomes] == ["ok"] * 3
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["colorsys.py", "given.txt", "mine.py"]


# How a child is started, and what the learner's cell does afterwards. One
# that outlives its parent is only found by its session, which is POSIX.
CHILDREN = {
    "a child": ("", ""),
    "a session of its own": (", start_new_session=True", ""),
}
if os.name == "posix":
    CHILDREN["an orphan"] = ("", "\nimport os\nos._exit(0)")


def running(token: str) -> list[psutil.Process]:
    """Processes with the token in their command line, but no zombies.

    By it, as a number means another process where they run apart.
    """
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        told = process.info
        ended = told["status"] == psutil.STATUS_ZOMBIE
        if not ended and any(token in text for text in told["cmdline"] or ()):
            found.append(process)
    return found


def ends_soon(token: str) -> bool:
    deadline = time.monotonic() + 20
    while running(token) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = running(token)
    for process in left:
        process.kill()
    return not left


@pytest.mark.parametrize(
    ("how", "then"), CHILDREN.values(), ids=CHILDREN.keys()
)
def test_processes_that_a_learner_started_are_ended(
    how: str, then: str, tmp_path: Path
) -> None:
    token = uuid4().hex
    start = (
        "import pathlib, subprocess, sys\n"
        "code = 'import time; time.sleep(600)'\n"
        f"run = [sys.executable, '-c', code, {token!r}]\n"
        f"child = subprocess.Popen(run{how})\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).touch(){then}"
    )
    run_steps([own(start), check("pass")], LIMITS)
    assert (tmp_path / "started").exists()
    assert ends_soon(token)


def test_an_interrupted_start_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(processes._Child, "_wait", interrupt)
    before = psutil.Process().children()
    with pytest.raises(KeyboardInterrupt):
        run_steps([check("pass")], LIMITS)
    assert psutil.Process().children() == before


def test_the_process_ends_with_a_parent_that_is_killed(
    tmp_path: Path,
) -> None:
    note = tmp_path / "started"
    cell = (
        "import pathlib\n"
        f"pathlib.Path({str(note)!r}).touch()\n"
        "while True: pass"
    )
    script = (
        "from labkit.exercises.processes import RunLimits, Step, run_steps\n"
        f"run_steps([Step('own', 'own', {cell!r})], RunLimits())"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        deadline = time.monotonic() + 60
        while not note.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        family = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert note.exists()
    assert family
    left = psutil.wait_procs(family, timeout=20)[1]
    for process in left:
        process.kill()
    assert left == []


if sys.platform != "win32":

    def test_a_fork_takes_no_request() -> None:
        # The fork is faster than the process itself to ask for more.
        steps = [own("import os, time\nif os.fork(): time.sleep(0.2)")]
        steps += [own("a = 0"), *[own("a += 1")] * 20, check("assert a == 20")]
        assert ends(steps) == ["ok"] * 23


def test_an_import_error_names_no_file_of_this_machine() -> None:
    steps = [own("from json import nothing")]
    (outcome,) = run_steps(steps, LIMITS)
    assert outcome.message == "cannot import name 'nothing' from 'json'"


def test_a_stop_is_told_before_the_rest_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[int] = []
    once = processes._run_once

    def counted(steps: Mapping[int, Step], *rest: Any) -> dict[int, Outcome]:
        rounds.append(len(steps))
        return once(steps, *rest)

    monkeypatch.setattr(processes, "_run_once", counted)
    told: list[int] = []
    steps = [check("while True:\n    pass"), check("assert True")]
    run_steps(steps, IMPATIENT, on_stop=lambda *_: told.append(len(rounds)))
    assert told == [1]
    assert len(rounds) > 1


def test_a_reply_of_another_form_is_no_trouble() -> None:
    reply = {"type": "E", "message": "m", "cell": 3, "line": "4"}
    found = processes._outcome(
        b"error " + json.dumps({**reply, "test_line": "5"}).encode()
    )
    assert (found.cell, found.line, found.test_line) == (None, None, None)
