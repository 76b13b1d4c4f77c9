"""Put a checkpoint behind the server, for the command line."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

from labkit import checkpoints, machine
from labkit.errors import LabError
from labkit.serving import server
from labkit.serving.access import KEY_VARIABLE, Access
from labkit.serving.app import create_app
from labkit.serving.backend import ModelBackend
from labkit.serving.engine import SingleSlotEngine


def serve_checkpoint(
    name: str | None, host: str, port: int, until_input_closes: bool = False
) -> None:
    """Serve a fetched checkpoint until Ctrl-C, or until stdin closes.

    The model loads while the server already listens and answers "not
    ready". Where the environment has LABKIT_API_KEY, it is asked for.
    LabError when the model was not fetched or the port is taken.
    """
    access = Access(os.environ.get(KEY_VARIABLE), _names(host))
    checkpoint = checkpoints.find(name or checkpoints.DEFAULT)
    checkpoints.require(checkpoint)
    engine = SingleSlotEngine(lambda: _load(checkpoint.name))
    if until_input_closes:
        threading.Thread(target=_stop_with_input, daemon=True).start()
    status = 0
    try:
        # Whoever names an address that others can reach has asked for it.
        server.serve(
            create_app(engine, access=access),
            host=host,
            port=port,
            allow_remote=True,
            has_key=access.key is not None,
        )
    except LabError as error:
        print(error, file=sys.stderr)
        status = 1
    # After an error nobody waits for a model that is still loading.
    ended = engine.close(timeout_s=0.0) if status else engine.close()
    if not ended:
        # A generation that outlasts the server cannot be interrupted, and
        # PyTorch aborts a process that ends under one.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _names(host: str) -> list[str]:
    """By which names a server may be called, next to its addresses."""
    if server.is_loopback(host):
        return []
    return [host, socket.gethostname(), socket.getfqdn()]


def _load(name: str) -> ModelBackend:
    machine.wait_briefly(os.environ)
    import torch

    torch.set_num_threads(machine.default_threads())
    return ModelBackend.load(name)


def _stop_with_input() -> None:
    """Wait for the end of standard input, then stop like Ctrl-C."""
    sys.stdin.read()
    signal.raise_signal(signal.SIGINT)
