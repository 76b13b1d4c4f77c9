"""How `python -m labkit serve` begins and ends, around a scripted model."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import requests

from labkit import machine
from labkit.errors import LabError
from labkit.serving import run

TIMEOUT_S = 10


def test_how_a_model_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)
    assert run.setting(None, False) == run.Setting(2, False)
    assert run.setting(4, True).about() == {"weights": "fused", "threads": 4}
    for threads in (0, -1, 5):
        with pytest.raises(LabError, match="1 to 4; choose --threads"):
            run.setting(threads, False)


def test_by_which_names_a_server_is_called() -> None:
    assert run._names(run.Place("127.0.0.1", 0)) == []
    assert run._names(run.Place("::1", 0, ["lab.example"])) == ["lab.example"]
    names = run._names(run.Place("0.0.0.0", 0, ["lab.example"]))
    assert {"lab.example", "0.0.0.0", socket.gethostname()} <= set(names)
    with pytest.raises(LabError, match="not the name of a host"):
        run._names(run.Place("127.0.0.1", 0, ["http://lab.example"]))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_requests_are_told_that_the_server_ends(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exit_at_once(status: int) -> None:
        raise AssertionError("the worker should have ended")

    monkeypatch.setattr(run.checkpoints, "require", lambda checkpoint: None)
    monkeypatch.setattr(run, "_load", lambda name, how: backend)
    monkeypatch.setattr(run.os, "_exit", exit_at_once)
    monkeypatch.delenv("LABKIT_API_KEY", raising=False)
    backend.gate.clear()
    place = run.Place("127.0.0.1", free_port())
    url = f"http://127.0.0.1:{place.port}"
    answers: list[Future[requests.Response]] = []

    def ask(path: str) -> requests.Response:
        body = {"prompt": "a", "max_new_tokens": 2}
        return requests.post(url + path, json=body, timeout=TIMEOUT_S)

    def visit(pool: ThreadPoolExecutor) -> None:
        eventually(lambda: requests.get(url + "/health", timeout=1).ok)
        answers.append(pool.submit(ask, "/stream"))
        assert backend.started.wait(TIMEOUT_S)
        answers.append(pool.submit(ask, "/stream"))
        waits = "num_requests_waiting 1"
        eventually(
            lambda: waits in requests.get(url + "/metrics", timeout=1).text
        )
        signal.raise_signal(signal.SIGTERM)
        answers[1].exception(TIMEOUT_S)
        backend.gate.set()

    with ThreadPoolExecutor() as pool, pytest.raises(SystemExit) as ended:
        visiting = pool.submit(visit, pool)
        run.serve_checkpoint(None, place, run.Setting(1))
    visiting.result()
    assert ended.value.code == 0
    runs, waited = (answer.result() for answer in answers)
    assert runs.text.count("event: token") == 2
    assert "event: done" in runs.text
    assert waited.status_code == 503
    assert waited.json()["error"]["code"] == "shutting_down"


def eventually(check: Any) -> None:
    """Wait for what other threads are about to do."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            if check():
                return
        except requests.RequestException:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.01)
