"""A real JupyterLab, and a hand on it through a real browser."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import psutil
from nbformat.reader import NotJSONError
from playwright.sync_api import ConsoleMessage, Locator, Page, expect

from labkit import lab
from labkit.execution import end_processes

Notebook: TypeAlias = Any

START_SECONDS = 60
SETTINGS = {
    **lab.SETTINGS,
    # Every cell in the page; else only those near the visible part are.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}
"""Those of `make lab`, and one more."""

TROUBLE = ("application/vnd.jupyter.error", "application/vnd.jupyter.stderr")
"""Mime types under which the page shows errors and warnings."""

CLOSED_EARLY = "Could not restore the debugger state: Canceled future"
"""JupyterLab asks each kernel for its debugger, and says this of a notebook
that was closed before the answer came. `open_next` closes that soon."""

_RUNNING = """() => ({
    prompts: [...document.querySelectorAll(
        '.jp-Notebook .jp-CodeCell .jp-InputPrompt')]
        .map(prompt => prompt.textContent.trim()),
    idle: document.querySelector('.jp-Notebook-ExecutionIndicator')
        ?.dataset.status === 'idle',
    dialog: document.querySelector('.jp-Dialog')?.innerText ?? null })"""

_SHOWN = """() => [...document.querySelectorAll(
        '.jp-Notebook .jp-CodeCell')]
    .map(cell => [...cell.querySelectorAll('.jp-OutputArea-output')]
        .map(area => ({
            mime: area.dataset.mimeType ?? '',
            text: area.innerText,
            pictures: [...area.querySelectorAll('img')].map(picture =>
                picture.complete ? picture.naturalWidth : 0) })))"""


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: address without a final slash, and its token."""

    address: str
    token: str
    root: Path
    log: Path


@dataclass(frozen=True)
class Shown:
    """One output as the page shows it: its mime type and visible text.

    `pictures` are their widths in pixels, 0 for one that did not load.
    """

    mime: str
    text: str
    pictures: tuple[int, ...] = ()


class Lab:
    """Drives the notebook page of one JupyterLab."""

    def __init__(self, server: Server, page: Page) -> None:
        self.server = server
        self.page = page
        self.console_errors: list[str] = []
        self._path = Path()
        page.on("console", self._listen)
        page.on("pageerror", lambda e: self.console_errors.append(str(e)))

    def open(self, notebook: str) -> None:
        """Open a notebook (path under the root) and wait for its kernel."""
        self._path = self.server.root / notebook
        self.page.goto(
            f"{self.server.address}/lab/tree/{notebook}"
            f"?token={self.server.token}&reset"
        )
        self.page.wait_for_selector(
            ".jp-NotebookPanel .jp-Notebook .jp-Cell", timeout=60_000
        )
        self._wait_for_kernel()

    def open_next(self, notebook: str) -> None:
        """Open a notebook from the menu, in place of the one before it.

        Quicker than `open`, which loads the whole page again.
        """
        panels = self.page.locator(".jp-NotebookPanel")
        if self._path == Path():
            self.page.goto(
                f"{self.server.address}/lab?token={self.server.token}&reset"
            )
        else:
            self._menu("File", "Close and Shut Down Notebook…")
            self.page.locator(".jp-Dialog .jp-mod-accept").click()
            expect(panels).to_have_count(0)
        self._path = self.server.root / notebook
        self._menu("File", "Open from Path…")
        dialog = self.page.locator(".jp-Dialog")
        dialog.locator("input").fill(notebook)
        dialog.locator(".jp-mod-accept").click()
        expect(panels.locator(".jp-Cell").first).to_be_visible()
        self._wait_for_kernel()

    def _wait_for_kernel(self) -> None:
        # The circle in the toolbar says idle too early; this line does not.
        status = self.page.locator("#jp-main-statusbar")
        expect(status).to_contain_text("| Idle", timeout=60_000)

    def run_all(self, timeout_s: float = 600) -> None:
        """Clear all outputs, run all cells, and wait for the end.

        The outputs go first so that what is seen afterwards is of this run.
        """
        self._menu("Edit", "Clear Outputs of All Cells")
        self._menu("Run", "Run All Cells")
        self._wait(timeout_s)

    def run_above(self, cell_id: str, timeout_s: float = 600) -> None:
        """Run the cells above one, and wait for the end."""
        self.cell(cell_id).click()
        self._menu("Run", "Run All Above Selected Cell")
        self._wait(timeout_s)

    def run_from(self, cell_id: str, timeout_s: float = 600) -> None:
        """Run one cell and all below it, and wait for the end."""
        self.cell(cell_id).click()
        self._menu("Run", "Run Selected Cell and All Below")
        self._wait(timeout_s)

    def _wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        calm = 0
        while calm < 4:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"still running after {timeout_s} s: {self.prompts()}"
                )
            self.page.wait_for_timeout(250)
            calm = calm + 1 if self._at_rest() else 0

    def prompts(self) -> dict[str, str]:
        """Code cell id -> its prompt, such as "[3]:"."""
        state = self.page.evaluate(_RUNNING)
        ids = [cell.id for cell in self._code_cells()]
        return dict(zip(ids, state["prompts"], strict=True))

    def cell(self, cell_id: str) -> Locator:
        """The cell in the page."""
        ids = [cell.id for cell in self.notebook().cells]
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        expect(cells).to_have_count(len(ids))
        return cells.nth(ids.index(cell_id))

    def cell_outputs(self) -> dict[str, list[Shown]]:
        """Code cell id -> what the page shows below it, in order."""
        ids = [cell.id for cell in self._code_cells()]
        return {
            cell_id: [
                Shown(each["mime"], each["text"], tuple(each["pictures"]))
                for each in outputs
            ]
            for cell_id, outputs in zip(
                ids, self.page.evaluate(_SHOWN), strict=True
            )
        }

    def notebook(self) -> Notebook:
        """The notebook's file as it is on disk now.

        JupyterLab saves in place: for a moment the file is empty or half
        written, and then it is no JSON.
        """
        for _ in range(100):
            try:
                return nbformat.read(self._path, as_version=4)
            except NotJSONError:
                self.page.wait_for_timeout(50)
        raise AssertionError("the notebook's file stayed half written for 5 s")

    def save(self) -> Notebook:
        """Save the notebook and return what its file holds then."""
        before = self._path.stat().st_mtime_ns
        self._menu("File", "Save Notebook")
        for _ in range(300):
            if self._path.stat().st_mtime_ns != before:
                return self.notebook()
            self.page.wait_for_timeout(100)
        raise AssertionError("the notebook was not saved within 30 s")

    def screenshot(self, path: Path) -> Path:
        self.page.screenshot(path=path)
        return path

    def _menu(self, menu: str, item: str) -> None:
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        # By its text: an entry's accessible name holds its shortcut too.
        self.page.locator(".lm-Menu").get_by_text(item, exact=True).click()

    def _at_rest(self) -> bool:
        """The cells were started and none is running any more.

        AssertionError when a dialog is in the way.
        """
        state = self.page.evaluate(_RUNNING)
        if state["dialog"]:
            raise AssertionError(f"a dialog is in the way: {state['dialog']}")
        prompts = "".join(state["prompts"])
        started = any(sign.isdigit() for sign in prompts)
        return bool(state["idle"]) and started and "*" not in prompts

    def _code_cells(self) -> list[Any]:
        cells = self.notebook().cells
        return [cell for cell in cells if cell.cell_type == "code"]

    def _listen(self, message: ConsoleMessage) -> None:
        early = message.text.startswith(CLOSED_EARLY)
        if message.type == "error" and not early:
            where = message.location.get("url", "")
            self.console_errors.append(f"{message.text} ({where})")


@contextmanager
def running(
    root: Path, scratch: Path, environment: Mapping[str, str]
) -> Iterator[Server]:
    """Start JupyterLab on `root` with its state in `scratch`; end it.

    `environment` is what its kernels have beside this process's variables.
    """
    log = scratch / "jupyterlab.log"
    token = secrets.token_hex(16)
    with log.open("w", encoding="utf-8") as stream:
        process = psutil.Popen(
            _command(root, token),
            cwd=scratch,
            env={**_environment(scratch), **environment},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            address = _address(process, scratch / "runtime", token, log)
            yield Server(address, token, root, log)
        finally:
            children = process.children(recursive=True)
            end_processes([process])  # it ends its kernels; then the rest
            end_processes(children)


def _command(root: Path, token: str) -> list[str]:
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser"),
        *("--ip=127.0.0.1", f"--IdentityProvider.token={token}"),
        f"--ServerApp.root_dir={root}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


def _environment(scratch: Path) -> dict[str, str]:
    """Settings, workspaces and caches of its own, in `scratch`."""
    settings = scratch / "settings"
    for plugin, values in SETTINGS.items():
        name = plugin.replace(":", "/")
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    folders = {
        "JUPYTER_CONFIG_DIR": scratch / "config",
        "JUPYTER_DATA_DIR": scratch / "data",
        "JUPYTER_RUNTIME_DIR": scratch / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": settings,
        "JUPYTERLAB_WORKSPACES_DIR": scratch / "workspaces",
        "IPYTHONDIR": scratch / "ipython",
    }
    kept = {k: v for k, v in os.environ.items() if k != "JUPYTER_PATH"}
    return {
        **kept,
        **{name: str(path) for name, path in folders.items()},
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def _address(
    process: psutil.Popen, runtime: Path, token: str, log: Path
) -> str:
    """Where it listens, once it answers; the port is its own choice."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            address = _answering(path, token)
            if address:
                return address
        time.sleep(0.2)
    text = log.read_text(encoding="utf-8", errors="replace")
    raise AssertionError(f"JupyterLab did not start:\n{text[-3000:]}")


def _answering(path: Path, token: str) -> str | None:
    try:
        port = json.loads(path.read_text(encoding="utf-8"))["port"]
        address = f"http://127.0.0.1:{port}"
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        direct.open(f"{address}/api/status?token={token}", timeout=2).close()
    except (OSError, ValueError, KeyError):
        return None  # not written yet, or not listening yet
    return address
