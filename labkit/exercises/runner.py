"""The child process in which a learner's cells and the tests run.

`confinement.py` goes on with this file as a script; nobody imports it. It
needs the standard library, IPython and psutil only.

The learner's cells run in an IPython shell, as in JupyterLab. A test is
different: it was compiled before any of the learner's code ran, it is
executed outside the shell, in names of its own, with builtins of its own,
and with the given cells' names as the source defined them. The reply to a
test carries a token that arrives only when the test begins. So replaced
builtins, shell hooks, a forged `assert` helper or a redefined input do not
reach the verdict. Code in the same process that looks for this machinery on
purpose (frames, `gc`, `ctypes`) still can; see the notes on grading.
"""

from __future__ import annotations

import json
import os
import re
import signal
import symtable
import sys
import threading
import time
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import psutil

_MESSAGE_CHARACTERS = 500

# Held here, so that replacing it in its module changes nothing.
_write = os.write
_sleep = time.sleep


def serve() -> None:
    """Run the steps of one job, one reply a line.

    The parent sends the whole job as one line of JSON, then the number of
    each step with a token. Replies leave by what was standard output; what
    the learner prints goes to standard error, where the parent counts it.
    The one argument is the id of the process to end with, or 0.
    """
    parent = int(sys.argv.pop())
    if parent:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    replies = os.dup(1)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _keep_from_forks(requests.fileno(), replies)
    steps = json.loads(requests.readline())
    session = _Session(steps)
    _send(replies, b"ready\n")
    while request := requests.readline().split():
        number, token = int(request[0]), request[1]
        error = session.run(number)
        reply = b" ok" if error is None else b" error " + _encoded(error)
        _send(replies, token + reply + b"\n")
    # Threads that the learner started must not keep the process alive.
    os._exit(0)


def _end_with(parent: int) -> None:
    """End this process and its group soon after the parent has ended."""
    try:
        process = psutil.Process(parent)
        while process.is_running():
            # One that nobody has waited for yet has ended too.
            if process.status() == psutil.STATUS_ZOMBIE:
                break
            _sleep(1)
    except psutil.Error:
        pass
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _keep_from_forks(*descriptors: int) -> None:
    """In a process that a learner forks these lead nowhere.

    Else it would take requests that are meant for this process.
    """

    def cut() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in descriptors:
            os.dup2(null, descriptor, inheritable=False)
        os.close(null)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=cut)


class _Session:
    """One learner's names, and the tests that look at them."""

    def __init__(self, steps: list[dict[str, str]]) -> None:
        self._steps = steps
        self._builtins = dict(globals()["__builtins__"])
        self._tests = {
            number: _compiled(step["source"], f"<{step['name']}>")
            for number, step in enumerate(steps)
            if step["kind"] == "test"
        }
        self._bound = {
            number: _bound_names(step["source"])
            for number, step in enumerate(steps)
            if step["kind"] == "given"
        }
        self._shell = _make_shell()
        self._names = self._shell.user_ns
        self._given: dict[str, Any] = {}
        self._cells: dict[int, str] = {}
        # Last, so that no file beside the notebook hides a real module.
        sys.path.append(str(Path.cwd()))

    def run(self, number: int) -> dict[str, Any] | None:
        """One step; None, or what went wrong."""
        step = self._steps[number]
        if step["kind"] == "test":
            return self._test(number)
        error = self._cell(step)
        for name in self._bound.get(number, ()):
            if name in self._names:
                self._given[name] = self._names[name]
        return error

    def _cell(self, step: dict[str, str]) -> dict[str, Any] | None:
        self._cells[self._shell.execution_count] = step["name"]
        try:
            result = self._shell.run_cell(step["source"], store_history=True)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as escaped:
            error = escaped
        if error is None:
            return None
        found = self._describe(error)
        if isinstance(error, SyntaxError) and found["cell"] is None:
            # Wrong indentation is found before the cell has a file's name.
            found |= {"cell": step["name"], "line": error.lineno}
        return found

    def _test(self, number: int) -> dict[str, Any] | None:
        names = {
            name: value
            for name, value in self._names.items()
            if type(name) is str and name not in self._builtins
        }
        names |= self._given
        names |= {"__builtins__": dict(self._builtins), "__name__": "__main__"}
        sys.settrace(None)
        sys.setprofile(None)
        test = self._tests[number]
        try:
            # The test is the source's own text, compiled at the start.
            exec(test, names)  # noqa: S102
        except BaseException as error:
            line = _line_in(test.co_filename, error.__traceback__)
            return {**self._describe(error), "test_line": line}
        return None

    def _describe(self, error: BaseException) -> dict[str, Any]:
        cell, line = self._place(error.__traceback__)
        if isinstance(error, SyntaxError) and cell is None:
            cell, line = self._cell_of(error.filename), error.lineno
        return {
            "type": type(error).__name__,
            "message": _text(error)[:_MESSAGE_CHARACTERS],
            "cell": cell,
            "line": line if cell else None,
        }

    def _place(
        self, traceback: TracebackType | None
    ) -> tuple[str | None, int | None]:
        """The innermost line of the learner's own that was running."""
        found: tuple[str | None, int | None] = (None, None)
        while traceback is not None:
            cell = self._cell_of(traceback.tb_frame.f_code.co_filename)
            if cell is not None:
                found = (cell, traceback.tb_lineno)
            traceback = traceback.tb_next
        return found

    def _cell_of(self, filename: str | None) -> str | None:
        match = re.match(r"<ipython-input-(\d+)-", filename or "")
        return self._cells.get(int(match.group(1))) if match else None


def _line_in(filename: str, traceback: TracebackType | None) -> int | None:
    """The outermost line of a file that was running."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            return traceback.tb_lineno
        traceback = traceback.tb_next
    return None


def _compiled(source: str, name: str) -> CodeType:
    """A test's code: its asserts kept, this file's `__future__` left out."""
    return compile(source, name, "exec", dont_inherit=True, optimize=0)


def _bound_names(source: str) -> set[str]:
    """The names that a cell binds at its top level."""
    symbols = symtable.symtable(source, "given", "exec").get_symbols()
    return {
        symbol.get_name()
        for symbol in symbols
        if symbol.is_assigned() or symbol.is_imported()
    }


def _text(error: BaseException) -> str:
    """The message, without the names of files that a learner has not got."""
    try:
        text = re.sub(
            r" \(<(?:ipython-input-|tokenize>)[^)]*\)$", "", str(error)
        )
        if isinstance(error, ImportError) and error.path:
            text = text.replace(f" ({error.path})", "")
        notes = getattr(error, "__notes__", ())  # for which input it was
        return " ".join([text, *(f"({note})" for note in notes)])
    except BaseException:
        return "an error whose message cannot be shown"


def _make_shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        """IPython without a terminal, a kernel or a history on disk."""

        def enable_gui(self, gui: str | None = None) -> None:
            """`%matplotlib inline` asks for it; there is no window here."""

        def ask_exit(self) -> None:
            raise SystemExit("exit() was called")

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    return Shell.instance(config=config)


def _encoded(error: dict[str, Any]) -> bytes:
    try:
        return json.dumps(error).encode()
    except BaseException:
        return b"{}"


def _send(descriptor: int, data: bytes) -> None:
    while data:
        data = data[_write(descriptor, data) :]


def _boot() -> None:
    """Run this file once more with builtins that nobody can replace.

    Functions look names up in the builtins that their module had when they
    were made; these are a private copy.
    """
    import builtins

    names: dict[str, Any] = {
        "__builtins__": dict(vars(builtins)),
        "__name__": "labkit_exercise_runner",
    }
    text = Path(__file__).read_text(encoding="utf-8")
    exec(compile(text, __file__, "exec"), names)  # noqa: S102 - this file
    names["serve"]()


if __name__ == "__main__":
    _boot()
