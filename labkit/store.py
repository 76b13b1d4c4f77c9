"""Folders of files that are either whole or not there.

A folder is filled under `staging/`, described by a manifest with the size and
SHA-256 of every file, and then renamed into place in one step. Whatever was
killed on the way stays in `staging/` and is removed by the next attempt.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.errors import LabError

MANIFEST = "labkit.json"
SCHEMA = 1
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
RENAME_TRIES = 20
RENAME_PAUSE_S = 0.1


def home() -> Path:
    """Folder for models and cached measurements; LABKIT_HOME moves it."""
    found = chosen(os.environ, "LABKIT_HOME")
    if found is not None:
        return found
    import platformdirs

    return platformdirs.user_cache_path("labkit", appauthor=False)


def chosen(environment: Mapping[str, str], name: str) -> Path | None:
    """The folder that a variable names, absolute; None when it is not set.

    LabError for a ~ that stands for no known home, and for a file.
    """
    value = environment.get(name)
    if not value:
        return None
    try:
        found = Path(value).expanduser().absolute()
    except RuntimeError as error:
        raise LabError(
            f"{name} is {value!r}, and no home folder is known for it: set "
            "it to the whole path of a folder."
        ) from error
    if any(place.is_file() for place in (found, *found.parents)):
        raise LabError(
            f"{name} is {value!r}, a file or below one: set it to a folder."
        )
    return found


def settle(environment: MutableMapping[str, str]) -> None:
    """Make the folders that the variables name absolute, in place.

    A kernel works in another folder than the command that starts it, so a
    relative path would mean another place there. LabError as for `chosen`.
    """
    for name in ("LABKIT_HOME", "LABKIT_RESULTS"):
        found = chosen(environment, name)
        if found is not None:
            environment[name] = str(found)


@dataclass(frozen=True)
class Pin:
    """What a file must be: its size in bytes and its SHA-256 (hex)."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Pin:
        """The pin that describes a file as it is now."""
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return cls(path.stat().st_size, digest)

    def problem(self, path: Path) -> str | None:
        """What is wrong with the file, in words, or None."""
        if not path.is_file():
            return f"{path.name} is missing"
        size = path.stat().st_size
        if size != self.size:
            return f"{path.name} has {size:,} bytes instead of {self.size:,}"
        found = Pin.of(path).sha256
        if found != self.sha256:
            return (
                f"{path.name} has SHA-256 {found[:12]}... "
                f"instead of {self.sha256[:12]}..."
            )
        return None


@dataclass(frozen=True)
class Manifest:
    """What a finished folder holds and where it came from."""

    name: str
    source: str
    revision: str
    files: dict[str, Pin]

    def write(self, folder: Path) -> None:
        """Write the manifest as the last file of the folder."""
        document = {"schema": SCHEMA, **asdict(self)}
        with (folder / MANIFEST).open("w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None when there is none to trust."""
        try:
            text = (folder / MANIFEST).read_text(encoding="utf-8")
            return cls._from_document(json.loads(text))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> Manifest:
        if document["schema"] != SCHEMA:
            raise ValueError("another schema")
        files = {n: Pin(**pin) for n, pin in document["files"].items()}
        return cls(
            document["name"], document["source"], document["revision"], files
        )

    def problems(
        self, folder: Path, only: Collection[str] | None = None
    ) -> list[str]:
        """Every file (of those in `only`) that differs from its pin."""
        names = self.files if only is None else only
        found = (
            self.files[name].problem(folder / name)
            if name in self.files
            else f"{name} is not in {MANIFEST}"
            for name in names
        )
        return [problem for problem in found if problem]


def explain(error: OSError, folder: Path) -> LabError:
    """The sentence for a disk that refused."""
    if error.errno in NO_SPACE:
        return LabError(
            f"The disk is full: free some space at {folder}, or set "
            "LABKIT_HOME to a folder on another disk, and run this again."
        )
    if error.errno in NO_PERMISSION:
        return LabError(
            f"The folder {folder} cannot be written to: set LABKIT_HOME to a "
            "folder of yours and run this again."
        )
    reason = error.strerror or str(error)
    return LabError(
        f"The folder {folder} cannot be used ({reason}): set LABKIT_HOME to "
        "another folder and run this again."
    )


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing, making its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # A temporary file is its owner's alone; what takes its place is not.
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_space(root: Path, needed: int) -> None:
    """LabError unless `needed` bytes are free where `root` lies."""
    free = shutil.disk_usage(root).free
    if free < needed:
        raise LabError(
            f"The model needs {needed / 2**20:,.0f} MiB and {root} has "
            f"{free / 2**20:,.0f} MiB free: free some space, or set "
            "LABKIT_HOME to a folder on another disk, and run this again."
        )


@contextmanager
def replacing(target: Path, root: Path) -> Iterator[Path]:
    """A new folder that takes the place of `target` when the block ends.

    An error in the block leaves `target` as it was. One process at a time
    fills folders under `root`; another waits for it.
    """
    import filelock

    staging = root / "staging"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(root / "staging.lock"):
            shutil.rmtree(staging, ignore_errors=True)
            fresh = staging / "new"
            fresh.mkdir(parents=True)
            try:
                yield fresh
                _swap(fresh, target, staging / "old")
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise explain(error, root) from error


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    """Put `fresh` at `target`; a folder is never seen half replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not target.exists():
            _rename(fresh, target)
            return
        _rename(target, aside)
        try:
            _rename(fresh, target)
        except BaseException:
            if not target.exists():
                _rename(aside, target)
            raise
    except PermissionError as error:
        raise LabError(
            f"The folder {target} cannot be replaced: close JupyterLab and "
            "other programs that use the model, and run this again."
        ) from error


def _rename(source: Path, target: Path) -> None:
    """Rename a folder, with patience for Windows.

    There a virus scanner that reads a file in it forbids that for a moment,
    and a program that has a file mapped for as long as it does.
    """
    for _ in range(RENAME_TRIES - 1):
        try:
            source.rename(target)
            return
        except PermissionError:
            time.sleep(RENAME_PAUSE_S)
    source.rename(target)
