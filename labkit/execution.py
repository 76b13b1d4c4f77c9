"""Lessons executed from the first cell to the last, without a browser.

`execute` runs a notebook and measures it, `normalise` gives the result the
form in which notebooks are committed, `rerun` does both in place. Importing
this module loads nbclient and nbformat; the command line imports it late.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)
from traitlets import default

from labkit import store
from labkit.errors import LabError
from labkit.progress import HEADLESS
from labkit.records import describe, records_of

Notebook: TypeAlias = Any  # an nbformat NotebookNode
Cell: TypeAlias = Any
Output: TypeAlias = Any

# Called before each code cell: its number from 1, how many there are, its id.
OnCell: TypeAlias = Callable[[int, int, str], None]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_SAMPLE_SECONDS = 0.05
_PATIENCE_SECONDS = 10.0
_METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
_TIMESTAMPS = ("execution", "ExecuteTime")
# The counters of a tqdm bar: "3/20 [00:01<00:05, 3.1it/s]", "7it [00:02, ...".
_BAR = re.compile(r"\d\S* \[[\d:]+[<,][^\]\n]*\]")


@dataclass(frozen=True)
class Run:
    """One execution of a notebook.

    `notebook` holds the outputs of every cell that ran, `seconds` the wall
    time with the kernel's start, `peak_bytes` the largest sum, over time, of
    resident memory of the kernel and all its descendants (pages that two
    processes share count twice). `error` is None or one sentence naming the
    cell that stopped the run; `leftovers` names the processes that outlived
    their kernel and were ended.
    """

    notebook: Notebook
    seconds: float
    peak_bytes: int
    error: str | None
    leftovers: tuple[str, ...] = ()


def read(path: Path) -> Notebook:
    """The notebook at path; LabError when it is missing or is not one."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except FileNotFoundError:
        raise LabError(
            f"There is no notebook at {path}; check the name."
        ) from None
    except Exception as error:  # nbformat raises whatever it stumbles over
        reason = str(error).partition("\n")[0]
        raise LabError(
            f"{path} cannot be read as a notebook ({reason}); restore it"
            " with git."
        ) from error
    return notebook


def execute(
    path: Path,
    *,
    cwd: Path | None = None,
    timeout: int = 600,
    on_cell: OnCell | None = None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Run every cell of a notebook in a fresh kernel of this interpreter.

    The file is only read. `cwd` is the kernel's folder (default: the
    notebook's own), `timeout` the seconds a cell may take, `environment`
    what is added to this process's variables. A cell tagged
    `raises-exception` may fail; any other failure ends the run and is told
    in `Run.error`. LabError when the file cannot be read.
    """
    notebook = _blank(read(path))
    watch = _MemoryWatch()
    place = _Place(notebook, on_cell)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(
        prefix="labkit-", ignore_cleanup_errors=True
    ) as scratch:
        client = NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            kernel_manager_class=_ThisInterpreter,
            record_timing=False,
            resources={"metadata": {"path": str(cwd or path.parent)}},
            on_cell_execute=place.enter,
        )
        client.on_notebook_start = lambda **_: watch.start(_kernel_pid(client))
        kernel = _kernel_environment(environment or {}, scratch)
        try:
            error = _run(client, kernel, place)
        finally:
            leftovers = watch.stop()
    seconds = time.perf_counter() - started
    return Run(notebook, seconds, watch.peak_bytes, error, leftovers)


def normalise(notebook: Notebook, previous: Notebook) -> Notebook:
    """A copy of an executed notebook in the form that is committed.

    Execution counts run from 1 over the cells that were executed; pieces of
    one stream that touch are joined; progress bars leave nothing; there are
    no time stamps and no widget state, and widget views have ids that
    depend only on their place. The notebook's own metadata is that of
    `previous`, the committed file, so that only values that changed differ.
    """
    notebook = copy.deepcopy(notebook)
    kept = {
        key: copy.deepcopy(value)
        for key, value in previous.metadata.items()
        if key != "widgets"
    }
    notebook.metadata = nbformat.from_dict({**kept, **_METADATA})
    notebook.nbformat_minor = previous.nbformat_minor
    count = 0
    for cell in notebook.cells:
        for key in _TIMESTAMPS:
            cell.metadata.pop(key, None)
        if cell.cell_type != "code":
            continue
        if cell.execution_count is not None:
            count += 1
            cell.execution_count = count
        cell.outputs = _normal_outputs(cell)
    return notebook


def to_text(notebook: Notebook) -> str:
    """The notebook as the text of its file, with the final newline."""
    return str(nbformat.writes(notebook)) + "\n"


def rerun(
    path: Path,
    *,
    timeout: int = 600,
    on_cell: OnCell | None = None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Execute a notebook and put the normalised result in its place.

    All or nothing: LabError, and the file as it was, when a cell fails
    that is not tagged for it, when the file cannot be written, or when
    somebody changed it meanwhile.
    """
    before = path.read_bytes() if path.is_file() else None
    previous = read(path)
    run = execute(
        path, timeout=timeout, on_cell=on_cell, environment=environment
    )
    if run.error:
        raise LabError(f"{path.name} was left as it was: {run.error}")
    if path.read_bytes() != before:
        raise LabError(
            f"{path.name} changed while it was running and was left alone;"
            " save it and run this again."
        )
    _replace(path, to_text(normalise(run.notebook, previous)))
    return run


def recorded(notebook: Notebook) -> str:
    """Everything the notebook recorded, one readable line a record."""
    return "\n".join(
        describe(record)
        for records in records_of(notebook).values()
        for record in records
    )


def end_processes(processes: Iterable[psutil.Process]) -> None:
    """Ask processes to end, and after three seconds make them."""
    processes = list(processes)
    for process in processes:
        _quietly(process.terminate)
    _, alive = psutil.wait_procs(processes, timeout=_PATIENCE_SECONDS)
    for process in alive:
        _quietly(process.kill)
    psutil.wait_procs(alive, timeout=_PATIENCE_SECONDS)


class _ThisInterpreter(AsyncKernelManager):
    """Starts ipykernel with sys.executable, whatever specs are installed."""

    transport_encryption = "auto"  # else the kernel warns at every start

    @default("kernel_spec_manager")
    def _only_the_native_spec(self) -> KernelSpecManager:
        return KernelSpecManager(kernel_dirs=[])


class _Place:
    """Where in the notebook a run is; tells `on_cell` on the way."""

    def __init__(self, notebook: Notebook, on_cell: OnCell | None) -> None:
        self._ids = [cell.id for cell in _runnable(notebook)]
        self._on_cell = on_cell
        self.cell_id: str | None = None

    def enter(self, cell: Cell, **_: object) -> None:
        self.cell_id = cell.id
        if self._on_cell:
            number = self._ids.index(cell.id) + 1
            self._on_cell(number, len(self._ids), cell.id)


class _MemoryWatch:
    """Samples the memory of a kernel and its descendants in a thread."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._seen: set[psutil.Process] = set()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pid: int) -> None:
        root = psutil.Process(pid)
        self._thread = threading.Thread(
            target=self._sample_until_done, args=(root,), daemon=True
        )
        self._thread.start()

    def stop(self) -> tuple[str, ...]:
        """End the sampling and whatever outlived the kernel."""
        self._done.set()
        if self._thread:
            self._thread.join()
        _, alive = psutil.wait_procs(
            list(self._seen), timeout=_PATIENCE_SECONDS
        )
        names = tuple(_command(process) for process in alive)
        end_processes(alive)
        return names

    def _sample_until_done(self, root: psutil.Process) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            family = _family(root)
            self._seen.update(family)
            total = sum(_resident_bytes(process) for process in family)
            self.peak_bytes = max(self.peak_bytes, total)


def _run(
    client: NotebookClient, environment: dict[str, str], place: _Place
) -> str | None:
    """Execute; None, or a sentence that names the cell that failed."""
    try:
        client.execute(env=environment)
    except CellExecutionError as error:
        said = f"{error.ename}: {error.evalue}".strip().partition("\n")[0]
        return f"cell {place.cell_id!r} raised {said}"
    except CellTimeoutError:
        return (
            f"cell {place.cell_id!r} was still running after"
            f" {client.timeout} s"
        )
    except DeadKernelError:
        return f"the kernel died in cell {place.cell_id!r}"
    except (AssertionError, asyncio.CancelledError):
        if not _was_interrupted(client):
            raise
        # On Ctrl-C nbclient ends the kernel, then misses it in its cleanup.
        raise KeyboardInterrupt from None
    except RuntimeError as error:
        return f"the kernel could not be used: {error}"
    return None


def _was_interrupted(client: NotebookClient) -> bool:
    """Whether nbclient's handler of Ctrl-C ran, which alone sets this."""
    return hasattr(client, "_async_cleanup_kernel_future")


def _blank(notebook: Notebook) -> Notebook:
    """The notebook without outputs, so that what ran can be told."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _runnable(notebook: Notebook) -> list[Cell]:
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.strip()
    ]


def _kernel_environment(
    extra: Mapping[str, str], scratch: str
) -> dict[str, str]:
    # A folder of its own keeps a person's IPython start-up files out.
    return {**os.environ, "IPYTHONDIR": scratch, HEADLESS: "1", **extra}


def _kernel_pid(client: NotebookClient) -> int:
    return int(client.km.provisioner.pid)


def _family(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return f"process {process.pid}"


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except psutil.Error:
        return


def _normal_outputs(cell: Cell) -> list[Output]:
    outputs = _merged([o for o in cell.outputs if not _is_bar(o)])
    for output in outputs:
        if output.output_type == "stream":
            output.text = _without_bars(output.text)
    outputs = _merged(outputs)
    for position, output in enumerate(outputs):
        if output.output_type == "execute_result":
            output.execution_count = cell.execution_count
        view = output.get("data", {}).get(WIDGET_VIEW)
        if view:
            place = f"{cell.id}/{position}"
            view["model_id"] = uuid.uuid5(uuid.NAMESPACE_OID, place).hex
    return outputs


def _merged(outputs: list[Output]) -> list[Output]:
    """Neighbouring pieces of one stream joined; empty ones left out."""
    merged: list[Output] = []
    for output in outputs:
        if output.output_type != "stream":
            merged.append(output)
        elif merged and merged[-1].get("name") == output.name:
            merged[-1].text += output.text
        elif output.text:
            merged.append(output)
    return merged


def _without_bars(text: str) -> str:
    """What a terminal would show in the end, less the progress bars."""
    return "".join(map(_final_line, re.findall(r"[^\n]*\n|[^\n]+", text)))


def _final_line(line: str) -> str:
    """A line after its carriage returns; nothing where it was a bar."""
    body = line.removesuffix("\n").removesuffix("\r")
    if "\r" not in line.removesuffix("\r\n"):
        return line.replace("\r\n", "\n")
    final = next((part for part in body.split("\r")[::-1] if part), "")
    if not final.strip() or _BAR.search(final):
        return ""
    return final + line[len(line.rstrip("\n")) :]


def _is_bar(output: Output) -> bool:
    data = output.get("data", {})
    return WIDGET_VIEW in data and bool(
        _BAR.search(data.get("text/plain", ""))
    )


def _replace(path: Path, text: str) -> None:
    """Write the whole file or leave the old one, permissions kept."""
    try:
        mode = path.stat().st_mode
        store.write_text(path, text)
        path.chmod(mode)
    except OSError as error:
        raise LabError(
            f"{path.name} could not be written ({error.strerror}) and was"
            " left as it was; check the disk and its permissions."
        ) from error
