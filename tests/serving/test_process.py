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

from labkit.serving.process import ServerProcess

PARENT = """
import sys
from labkit.serving.process import ServerProcess
with ServerProcess() as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.model
def test_serves_the_model_and_ends_with_its_block(model_home: Path) -> None:
    body = {"prompt": "Gravity is", "max_new_tokens": 3}
    with ServerProcess() as server:
        pid = server.pid
        assert server.url.startswith("http://127.0.0.1:")
        health = requests.get(f"{server.url}/health", timeout=30)
        assert health.json()["status"] == "ok"
        answer = requests.post(
            f"{server.url}/generate", json=body, timeout=60
        ).json()
        assert answer["prompt_tokens"] == 3
        assert answer["ids"] == [253, 4959, 1909]
        assert answer["queue_seconds"] >= 0
    assert not psutil.pid_exists(pid)


@pytest.mark.model
def test_ends_with_the_process_that_started_it(model_home: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    server.wait(timeout=60)


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
