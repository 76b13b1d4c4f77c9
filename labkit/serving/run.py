"""Put a checkpoint behind the server, for the command line."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from labkit import checkpoints, machine
from labkit.errors import LabError
from labkit.serving import server
from labkit.serving.access import KEY_VARIABLE, Access, host_name
from labkit.serving.app import create_app
from labkit.serving.backend import ModelBackend
from labkit.serving.engine import SingleSlotEngine


@dataclass(frozen=True)
class Place:
    """Where a server listens, and by which `names` it may be called.

    Its addresses always do; a proxy before it passes on a name of its own.
    """

    host: str
    port: int
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Setting:
    """How a model is run: with how many threads, with which weights.

    Both kinds of weights give the same tokens. Fused ones decode faster,
    plain ones are those of `labkit.llama`.
    """

    threads: int
    fused: bool = False

    def about(self) -> dict[str, str | int]:
        """The same for GET /health."""
        weights = "fused" if self.fused else "plain"
        return {"weights": weights, "threads": self.threads}


def setting(threads: int | None, fused: bool) -> Setting:
    """The course's own number of threads if None; LabError if too many."""
    if threads is None:
        return Setting(machine.default_threads(), fused)
    cores = machine.usable_cores()
    if not 1 <= threads <= cores:
        raise LabError(
            f"{threads} threads cannot be used: this machine has cores for "
            f"1 to {cores}; choose --threads from these."
        )
    return Setting(threads, fused)


def serve_checkpoint(
    name: str | None,
    place: Place,
    how: Setting,
    until_input_closes: bool = False,
) -> None:
    """Serve a fetched checkpoint until Ctrl-C, or until stdin closes.

    The model loads while the server already listens and answers "not
    ready". Where the environment has LABKIT_API_KEY, it is asked for.
    LabError when the model was not fetched or the port is taken.
    """
    access = Access(os.environ.get(KEY_VARIABLE), _names(place))
    checkpoint = checkpoints.find(name or checkpoints.DEFAULT)
    checkpoints.require(checkpoint)
    engine = SingleSlotEngine(lambda: _load(checkpoint.name, how))
    if until_input_closes:
        threading.Thread(target=_stop_with_input, daemon=True).start()
    status = 0
    try:
        # Whoever names an address that others can reach has asked for it.
        server.serve(
            create_app(engine, access=access, about=how.about()),
            host=place.host,
            port=place.port,
            allow_remote=True,
            has_key=access.key is not None,
            finish=engine.close,
        )
    except LabError as error:
        print(error, file=sys.stderr)
        status = 1
    # After an error nobody waits for a model that is still loading.
    if not engine.close(timeout_s=0.0):
        # A step that outlasts the server cannot be interrupted, and PyTorch
        # aborts a process that ends under one.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _names(place: Place) -> list[str]:
    """By which names a server may be called, next to its addresses."""
    names = [host_name(name) for name in place.names]
    if server.is_loopback(place.host):
        return names
    return [*names, place.host, socket.gethostname(), socket.getfqdn()]


def _load(name: str, how: Setting) -> ModelBackend:
    machine.wait_briefly(os.environ)
    import torch

    torch.set_num_threads(how.threads)
    return ModelBackend.load(name, fused=how.fused)


def _stop_with_input() -> None:
    """Wait for the end of standard input, then stop like Ctrl-C."""
    sys.stdin.read()
    signal.raise_signal(signal.SIGINT)
