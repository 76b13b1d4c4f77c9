"""`python -m labkit serve` as a process, with the real model."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import requests

from labkit.errors import LabError
from labkit.serving.process import COMMAND, ServerProcess

PARENT = """
import sys
from labkit.serving.process import ServerProcess
with ServerProcess() as server:
    print(server.pid, server.url, flush=True)
    sys.stdin.read()
"""


LISTENS = """
import sys, threading
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.server import serve
def load():
    {load}
def end():
    sys.stdin.read()
    os._exit(0)
import os, time
from labkit.errors import LabError
threading.Thread(target=end, daemon=True).start()
serve(create_app(SingleSlotEngine(load)), port=0)
"""
STAND_IN = "types.SimpleNamespace(name='', context=1, vocabulary=1)"
READY = LISTENS.format(load=f"import types; return {STAND_IN}")
ADDRESS = "http://127.0.0.1:9/"


def python(code: str, patience_s: float = 60.0) -> ServerProcess:
    """Code that stands for the server."""
    command = [sys.executable, "-c", code]
    return ServerProcess(command=command, patience_s=patience_s)


@pytest.mark.parametrize(
    ("code", "patience_s", "sentence"),
    [
        (
            LISTENS.format(load="raise LabError('The weights are gone.')"),
            60.0,
            "The weights are gone",
        ),
        (LISTENS.format(load="time.sleep(600)"), 1.0, "after 1 s: close"),
        ("import sys; sys.stdin.read()", 0.5, "was not ready"),
        ("print('nothing to say')", 60.0, "ended before"),
        (f"print('at', {ADDRESS!r})", 60.0, "ended before"),
    ],
)
def test_a_server_that_never_gets_ready(
    code: str, patience_s: float, sentence: str
) -> None:
    process = python(code, patience_s)
    with pytest.raises(LabError, match=sentence), process:
        raise AssertionError("it is not ready")
    with pytest.raises(LabError, match="not running"):
        assert process.pid


def test_options_are_words_of_the_command() -> None:
    code = "import sys; print('http://' + '+'.join(sys.argv[1:]))"
    process = ServerProcess(
        command=[sys.executable, "-c", code],
        options=("--fast", "--threads", "1"),
    )
    with pytest.raises(LabError, match="ended before"), process:
        raise AssertionError("it is not ready")
    assert process.url == "http://--fast+--threads+1"


def test_ends_with_its_block() -> None:
    with python(READY) as server:
        pid = server.pid
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


@pytest.mark.model
def test_serves_the_model_and_ends_with_the_process_that_started_it(
    model_home: Path,
) -> None:
    body = {"prompt": "Gravity is", "max_new_tokens": 3}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"LABKIT_API_KEY": "is not asked for here"},
    ) as parent:
        assert parent.stdout is not None
        pid, url = parent.stdout.readline().split()
        assert url.startswith("http://127.0.0.1:")
        health = requests.get(f"{url}/health", timeout=30)
        assert health.json()["status"] == "ok"
        answer = requests.post(f"{url}/generate", json=body, timeout=60).json()
        assert answer["prompt_tokens"] == 3
        assert answer["ids"] == [253, 4959, 1909]
        assert answer["queue_seconds"] >= 0
        server = psutil.Process(int(pid))
        parent.kill()
    server.wait(timeout=60)


@pytest.mark.model
def test_fused_weights_give_the_same_tokens(model_home: Path) -> None:
    options = ("--fast", "--threads", "1")
    with ServerProcess(options=options) as server:
        health = requests.get(f"{server.url}/health", timeout=30).json()
        assert (health["weights"], health["threads"]) == ("fused", 1)
        body = {"prompt": "Gravity is", "max_new_tokens": 3}
        answer = requests.post(f"{server.url}/generate", json=body, timeout=60)
        assert answer.json()["ids"] == [253, 4959, 1909]


@pytest.mark.model
def test_a_key_in_the_environment_is_asked_for(model_home: Path) -> None:
    """By `serve` itself, with a page elsewhere kept out."""
    variables = os.environ | {"LABKIT_API_KEY": "s3cret"}
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().split()[2]
        assert requests.get(f"{url}/v1/models", timeout=30).status_code == 401
        key = {"Authorization": "Bearer s3cret"}
        answer = requests.get(f"{url}/v1/models", headers=key, timeout=30)
        assert answer.status_code in {200, 503}
        server.stdin.close()
    assert server.returncode == 0


@pytest.mark.model
def test_a_busy_port_is_one_sentence(model_home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "labkit", "serve", "--port", port],
            capture_output=True,
            text=True,
            env=dict(os.environ),
            check=False,
        )
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
