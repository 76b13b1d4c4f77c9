"""Start JupyterLab on a lesson."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import store

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    # Else a lesson that was run and saved shows an error in place of each
    # form and slider when it is opened again.
    "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True},
}
"""Defaults of this environment's JupyterLab; a person's own come first."""


def arguments(
    root: Path, notebook: Path, environment: Mapping[str, str], uid: int | None
) -> list[str]:
    """Command line for JupyterLab: loopback, with its token.

    `uid` is the user's number, None where the system has none. JupyterLab
    takes the next free port by itself when its own is busy.
    """
    page = notebook.relative_to(root).as_posix()
    chosen = [
        "--ip=127.0.0.1",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{page}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if uid == 0:
        chosen.append("--allow-root")
    if not has_display(environment, sys.platform):
        chosen.append("--no-browser")
    return chosen


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser window can be expected to open."""
    if platform in ("win32", "darwin"):
        return "SSH_CONNECTION" not in environment
    return any(environment.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))


def write_settings(prefix: Path) -> None:
    """Put SETTINGS in force, for this environment alone.

    A file that is there and holds no JSON object is left as it is.
    """
    path = prefix / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    try:
        present = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        present = {}
    except (OSError, ValueError):
        return
    if not isinstance(present, dict):
        return
    wanted = {**present, **SETTINGS}
    if wanted == present:
        return
    try:
        store.write_text(path, json.dumps(wanted, indent=2) + "\n")
    except OSError:
        # Their absence is no reason not to start.
        return


def start(root: Path, notebook: Path) -> None:
    """Run JupyterLab in this process until it is stopped."""
    write_settings(Path(sys.prefix))
    # The kernel is this environment's, whatever a user's folder has.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    uid = os.getuid() if hasattr(os, "getuid") else None
    from jupyterlab.labapp import main

    main(arguments(root, notebook, os.environ, uid))
