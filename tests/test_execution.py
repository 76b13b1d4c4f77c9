"""Notebooks executed in real kernels, and the form they are written in."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from nbformat import v4

from labkit import execution, store
from labkit.errors import LabError
from labkit.execution import (
    WIDGET_VIEW,
    Notebook,
    Output,
    end_processes,
    execute,
    normalise,
    read,
    recorded,
    rerun,
    to_text,
)
from labkit.records import Record, bundle


def write(path: Path, *cells: Any) -> Path:
    notebook = v4.new_notebook(cells=list(cells))
    path.write_text(to_text(notebook), encoding="utf-8", newline="\n")
    return path


def code(cell_id: str, source: str, *tags: str) -> Any:
    metadata = {"tags": list(tags)} if tags else {}
    return v4.new_code_cell(source, id=cell_id, metadata=metadata)


def printed(notebook: Notebook, cell_id: str) -> str:
    cell = next(cell for cell in notebook.cells if cell.id == cell_id)
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "01_trial.ipynb"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What outlives its kernel is not waited for."""
    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", 0.5)


# Execution


def test_the_kernel_is_this_interpreter_in_the_lessons_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "share" / "kernels" / "python3"
    spec.mkdir(parents=True)
    wrong = {"argv": ["false"], "display_name": "x", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(wrong), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    source = (
        "import os, sys\n"
        "print([sys.executable, os.getcwd(),\n"
        "    os.environ['LABKIT_HEADLESS'], os.environ['TRIAL']])"
    )
    write(path, code("where", source))
    before = path.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for cwd, folder in ((None, tmp_path), (elsewhere, elsewhere)):
        run = execute(path, cwd=cwd, environment={"TRIAL": "yes"})
        assert run.error is None
        expected = [sys.executable, str(folder.resolve()), "1", "yes"]
        assert printed(run.notebook, "where") == f"{expected}\n"
        assert run.leftovers == ()
        assert run.seconds > 0
    assert path.read_bytes() == before


def test_a_tagged_error_is_passed_and_any_other_stops(path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    write(
        path,
        v4.new_markdown_cell("# Trial", id="title"),
        code("wanted", "raise KeyError('wanted')", "raises-exception"),
        code("empty", "  "),
        code("works", "print('works')"),
        code("breaks", "print('half')\nraise ValueError('one\\ntwo')"),
        code("later", "print('later')"),
    )
    run = execute(path, on_cell=lambda *place: seen.append(place))
    assert run.error == "cell 'breaks' raised ValueError: one"
    assert seen == [(1, 4, "wanted"), (2, 4, "works"), (3, 4, "breaks")]
    counts = {
        cell.id: cell.execution_count
        for cell in run.notebook.cells
        if cell.cell_type == "code"
    }
    assert counts == {
        "wanted": 1,
        "empty": None,
        "works": 2,
        "breaks": 3,
        "later": None,
    }
    assert printed(run.notebook, "works") == "works\n"
    assert printed(run.notebook, "breaks") == "half\n"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            "import time\nwhile True:\n    time.sleep(0.1)",
            "cell 'stuck' was still running after 3 s",
        ),
        ("import os\nos._exit(3)", "the kernel died in cell 'stuck'"),
    ],
)
def test_a_cell_that_never_answers(
    path: Path, source: str, error: str
) -> None:
    write(path, code("fine", "print('fine')"), code("stuck", source))
    run = execute(path, timeout=3)
    assert run.error == error
    assert printed(run.notebook, "fine") == "fine\n"


CHILD = """import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {program!r}],
                         stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(0.5)"""


INTERRUPTED = """
import sys
from pathlib import Path
from labkit.execution import execute
try:
    execute(Path(sys.argv[1]), on_cell=lambda *_: print("cell", flush=True))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_is_one(path: Path) -> None:
    write(path, code("slow", "import time; time.sleep(60)"))
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "cell\n"
        process.send_signal(signal.SIGINT)
        printed, failed = process.communicate(timeout=60)
    assert printed == "interrupted\n", failed


def test_another_failed_assertion_is_no_ctrl_c(
    path: Path, impatient: None
) -> None:
    def on_cell(*_: object) -> None:
        raise AssertionError("a fault")

    with pytest.raises(AssertionError, match="a fault"):
        execute(write(path, code("one", "1")), on_cell=on_cell)


def test_the_memory_of_children_counts_towards_the_peak(path: Path) -> None:
    program = (
        "import time; block = bytearray(b'x') * (300 * 2**20);"
        "print('ready', flush=True); time.sleep(600)"
    )
    write(
        path, code("start", CHILD.format(program=program) + "\nchild.kill()")
    )
    run = execute(path)
    assert run.error is None
    assert 300 * 2**20 < run.peak_bytes < 1000 * 2**20
    assert run.leftovers == ()


def test_what_outlives_the_kernel_is_named_and_ended(path: Path) -> None:
    program = "import time; print('ready', flush=True); time.sleep(601)"
    start = code("start", CHILD.format(program=program))
    write(path, start, code("die", "import os\nos._exit(1)"))
    run = execute(path)
    assert run.error == "the kernel died in cell 'die'"
    (left,) = run.leftovers
    assert "time.sleep(601)" in left
    assert not psutil.pid_exists(int(printed(run.notebook, "start")))


def test_end_processes_takes_those_that_are_gone(path: Path) -> None:
    child = psutil.Popen([sys.executable, "-c", "pass"])
    child.wait()
    stubborn = psutil.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"]
    )
    end_processes([child, stubborn])
    assert not psutil.pid_exists(stubborn.pid)


# Reading


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"3",
        b"{}",
        b"\xff\xfe",
        b'{"nbformat": 4}',
        b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 3}',
    ],
)
def test_a_file_that_is_no_notebook(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LabError, match="cannot be read as a notebook") as e:
        rerun(path)
    assert "\n" not in str(e.value)
    assert path.read_bytes() == content


def test_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(LabError, match="There is no notebook at"):
        execute(path)


# The committed form


def stream(name: str, text: str) -> Output:
    return v4.new_output("stream", name=name, text=text)


def normal(*outputs: Output) -> list[Output]:
    """The outputs of one executed cell in normal form."""
    cell = v4.new_code_cell(
        "", id="cell", outputs=list(outputs), execution_count=7
    )
    notebook = v4.new_notebook(cells=[cell])
    (cell,) = normalise(notebook, notebook).cells
    return list(cell.outputs)


def test_counts_follow_the_order_of_what_ran() -> None:
    result = v4.new_output("execute_result", data={}, execution_count=5)
    cells = [
        v4.new_code_cell("1", id="a", execution_count=5, outputs=[result]),
        v4.new_code_cell("2", id="not-run"),
        v4.new_markdown_cell("text", id="text"),
        v4.new_code_cell("3", id="c", execution_count=9),
    ]
    notebook = v4.new_notebook(cells=cells)
    found = normalise(notebook, notebook).cells
    counts = [cell.get("execution_count") for cell in found]
    assert counts == [1, None, None, 2]
    assert found[0].outputs[0].execution_count == 1
    assert notebook.cells[0].execution_count == 5, "the input is not changed"


def test_metadata_is_that_of_the_committed_file() -> None:
    previous = v4.new_notebook(metadata={"authors": ["A"], "widgets": {}})
    stamped = {"execution": {"iopub.status": "2026"}, "tags": ["x"]}
    fresh = v4.new_notebook(
        cells=[
            v4.new_code_cell("1", id="a", metadata=stamped),
            v4.new_markdown_cell("", id="b", metadata={"ExecuteTime": {}}),
        ],
        metadata={
            "widgets": {"state": {}},
            "language_info": {"name": "python", "version": "3.13.1"},
            "kernelspec": {"name": "mine", "display_name": "Mine"},
        },
    )
    found = normalise(fresh, previous)
    assert found.metadata == {
        "authors": ["A"],
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    assert [cell.metadata for cell in found.cells] == [{"tags": ["x"]}, {}]


def test_pieces_of_a_stream_are_joined_where_they_touch() -> None:
    plot = v4.new_output("display_data", data={"text/plain": "A plot."})
    out = normal(
        stream("stdout", "a"),
        stream("stdout", "b\n"),
        stream("stderr", "c\n"),
        stream("stdout", "d\n"),
        plot,
        stream("stdout", "e\n"),
    )
    assert [o.get("text") for o in out] == ["ab\n", "c\n", "d\n", None, "e\n"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\r  0%|    | 0/20 [00:00<?, ?it/s]", ""),
        ("\r100%|####| 20/20 [00:01<00:00, 19.9it/s]\n", ""),
        ("\r 50%|## | 1/2 [0:01<0:01, 1.0it/s]\r               \r", ""),
        ("\r7it [00:02,  3.1it/s]\n", ""),
        ("a: 1.2M/3.4M [00:01<00:02, 1.1MB/s]\r\rdone\n", "done\n"),
        ("before\n\r 0%| | 0/2 [00:00<?, ?it/s]\r    \r", "before\n"),
        (
            "\r 0%| | 0/2 [00:00<?, ?it/s]\nUserWarning: x\n",
            "UserWarning: x\n",
        ),
        ("one\rtwo\n", "two\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("\n\nkept\n\n", "\n\nkept\n\n"),
        ("took 3/20 [00:01<00:02, it] as printed\n", None),
    ],
)
def test_progress_bars_leave_nothing(text: str, left: str | None) -> None:
    found = normal(stream("stderr", text))
    assert "".join(o.text for o in found) == (text if left is None else left)
    assert all(o.text for o in found)


def test_a_bar_between_two_lines_does_not_part_them() -> None:
    view = {"model_id": "a1", "version_major": 2, "version_minor": 0}
    bar = {
        WIDGET_VIEW: view,
        "text/plain": "decode:   0%|          | 0/20 [00:00<?, ?it/s]",
    }
    found = normal(
        stream("stdout", "a\n"),
        v4.new_output("display_data", data=bar),
        stream("stdout", "b\n"),
        stream("stderr", "\r  0%|    | 0/20 [00:00<?, ?it/s]\r    \r"),
        stream("stdout", "c\n"),
    )
    assert [o.text for o in found] == ["a\nb\nc\n"]


def test_widget_views_have_stable_ids() -> None:
    def view(model_id: str) -> Output:
        view = {"model_id": model_id, "version_major": 2, "version_minor": 0}
        data = {WIDGET_VIEW: view, "text/plain": "IntSlider(value=2)"}
        return v4.new_output("display_data", data=data)

    first, second = normal(view("1f"), view("2e"))
    again, _ = normal(view("3d"), view("4c"))
    assert first == again != second


# Execution in place

MESSY = """import sys, time
from IPython.display import display
from ipywidgets import IntSlider
from tqdm import tqdm
from tqdm.auto import tqdm as widget_bar
for _ in widget_bar(range(3), desc="warm-up"):
    print("step")
for _ in tqdm(range(3), leave=False):
    time.sleep(0.01)
display(IntSlider(2))
time.time_ns() if False else "é"
"""


def test_only_values_that_changed_differ(path: Path) -> None:
    clock = code("clock", "import time\ntime.time_ns()")
    write(path, code("messy", MESSY), code("same", "1 + 1"), clock)
    assert rerun(path).error is None
    first = path.read_bytes().decode("utf-8")
    assert rerun(path).error is None
    second = path.read_bytes().decode("utf-8")
    before, after = first.split("\n"), second.split("\n")
    assert len(before) == len(after)
    changed = [b for b, a in zip(before, after, strict=True) if b != a]
    assert len(changed) == 1
    assert changed[0].strip().strip('"').isdecimal(), "only the time"
    assert second == to_text(read(path))
    messy = read(path).cells[0]
    assert [o.output_type for o in messy.outputs] == [
        "stream",
        "display_data",
        "execute_result",
    ]
    assert "'é'" in second


def test_a_failed_rerun_leaves_the_file_and_names_the_cell(
    path: Path,
) -> None:
    write(path, code("fine", "1"), code("broken", "1 / 0"))
    before = path.read_bytes()
    with pytest.raises(LabError) as caught:
        rerun(path)
    assert str(caught.value) == (
        "01_trial.ipynb was left as it was: cell 'broken' raised"
        " ZeroDivisionError: division by zero"
    )
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_edit_made_meanwhile_is_not_lost(path: Path) -> None:
    write(path, code("a", "1"))

    def edit(*_: object) -> None:
        write(path, code("b", "2"))

    with pytest.raises(LabError, match="changed while it was running"):
        rerun(path, on_cell=edit)
    assert [cell.id for cell in read(path).cells] == ["b"]


def test_a_disk_that_refuses_leaves_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, code("a", "1"))
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_text", refuse)
    with pytest.raises(LabError, match="No space left on device"):
        rerun(path)
    assert path.read_bytes() == before


def test_the_permissions_are_kept(path: Path) -> None:
    write(path, code("a", "1")).chmod(0o640)
    before = path.stat().st_mode
    rerun(path)
    assert path.stat().st_mode == before


def test_what_was_recorded_one_line_each() -> None:
    def shown(record: Record) -> Output:
        return v4.new_output("display_data", data=bundle(record))

    one = [shown(Record("ids", [1, 2])), shown(Record("time", 1.5, "s"))]
    two = [shown(Record("count", 3, rule="exact"))]
    notebook = v4.new_notebook(
        cells=[
            v4.new_code_cell("", id="a", outputs=one),
            v4.new_code_cell("", id="b", outputs=two),
        ]
    )
    assert recorded(notebook) == "ids: [1, 2]\ntime: 1.5 s\ncount: 3"
    assert recorded(v4.new_notebook()) == ""
