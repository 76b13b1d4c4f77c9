"""A server whose right answers are known: it plays time lines.

    python -m labkit.loadtest.scripted SCRIPT [--slots K] [--max-waiting M]

The n-th request gets the n-th time line of the script (after the last the
first again), whatever it asks. Steps are played on an absolute schedule from
the moment at which the request had been read or, with `slots`, at which one
was due to be free: first come, first served, and what is late by itself
makes nothing later that comes after it. A slot is held to the last step of
a time line, also when the client has left (before or after its turn): this
server does not look. GET /truth tells what was done when.

One thread waits in one `select`, whose time-out has microseconds (that of
epoll, and so of asyncio, has milliseconds); it can watch no more than
MOST_OPEN connections, and who comes on a further one gets a 503.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import select
import socket
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from labkit.loadtest import timelines
from labkit.loadtest.playing import (
    Asked,
    Peer,
    Played,
    Playing,
    Write,
    answer,
)
from labkit.loadtest.slots import Slots
from labkit.loadtest.timelines import TimeLine
from labkit.loadtest.wire import now_ns
from labkit.serving.process import ServerProcess

IDLE_S = 0.1
WATCHED = 511
"""Beside the listener: CPython's `select` takes 512 sockets on Windows."""
MOST_OPEN = WATCHED - 7
"""Connections that are served; the others are for refusals."""
FD_SETSIZE = 1024
"""Elsewhere `select` takes files whose number is below this."""
MAX_REQUEST_BYTES = 4 * 1024 * 1024
ROUTES = ("/stream", "/v1/completions", "/v1/chat/completions")


class Player:
    """The server itself; it listens at `url` from the beginning.

    `slots` requests at most are played at a time (None: any number), and
    one that comes while `max_waiting` others wait is refused with 429.
    """

    def __init__(
        self,
        script: Sequence[TimeLine],
        slots: int | None = None,
        max_waiting: int | None = None,
    ) -> None:
        self._script = script
        self._slots: Slots[Asked] = Slots(slots, max_waiting)
        self._played: list[Played] = []
        self._peers: dict[socket.socket, Peer] = {}
        self._due: list[tuple[int, int, Playing]] = []
        self._turn = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def played(self) -> list[Played]:
        """What was done so far, request by request."""
        return self._played

    def run(self, stopped: threading.Event) -> None:
        """Serve until it is stopped, and IDLE_S longer at most."""
        while not stopped.is_set():
            self._play(now_ns())
            self._wait()
        for peer in self._peers.values():
            peer.close()
        self._listener.close()

    def _play(self, until_ns: int) -> None:
        """All steps that are due by then, in the order of their moments."""
        while self._due and self._due[0][0] <= until_ns:
            due_ns, _, playing = heapq.heappop(self._due)
            playing.advance()
            if not playing.over:
                self._schedule(playing)
            elif (following := self._slots.leave()) is not None:
                self._begin(following, due_ns)

    def _begin(self, asked: Asked, free_ns: int) -> None:
        """Play it from when it was read, or from when its slot is free."""
        start_ns = max(asked.played.read_ns, free_ns)
        self._schedule(Playing(asked, start_ns))

    def _schedule(self, playing: Playing) -> None:
        self._turn += 1  # decides between steps that are due together
        heapq.heappush(self._due, (playing.due_ns, self._turn, playing))

    def _wait(self) -> None:
        """Until a step is due, or something can be read or sent."""
        peers = {s: peer for s, peer in self._peers.items() if peer.open}
        self._peers = peers
        sending = [s for s, peer in peers.items() if peer.unsent]
        wait_s = IDLE_S
        if self._due:
            wait_s = min(wait_s, max(0, self._due[0][0] - now_ns()) / 1e9)
        came, free, _ = select.select(
            [self._listener, *peers], sending, [], wait_s
        )
        for ready in free:
            peers[ready].write()
        for ready in came:
            if ready is self._listener:
                self._accept()
            elif peers[ready].open:
                self._receive(peers[ready])

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:  # there is no more, or it cannot be had
                return
            peer = Peer(connected, now_ns())
            if len(self._peers) < WATCHED and _can_be_watched(connected):
                self._peers[connected] = peer
            else:
                peer.close(reset=True)

    def _receive(self, peer: Peer) -> None:
        peer.read()
        if len(peer.received) > MAX_REQUEST_BYTES:
            peer.close()
        request = parse(peer.received)
        if request is None or not peer.open:
            return
        path, name, body, peer.received = request
        if path in ROUTES:
            number = len(self._played) % len(self._script)
            played = Played(name, number, peer.accepted_ns, now_ns())
            self._played.append(played)
            line = self._script[number]
            self._admit(Asked(peer, played, line, path, body))
        else:
            peer.write(answer(200, json.dumps(self._tell(path)).encode()))

    def _admit(self, asked: Asked) -> None:
        read_ns = asked.played.read_ns
        self._play(read_ns)  # a slot that was due to be free by then, is
        if len(self._peers) > MOST_OPEN:
            asked.refuse(503, f"{MOST_OPEN} connections are open, the most.")
            asked.peer.close_when_sent()
            return
        verdict = self._slots.come(asked)
        if verdict == "begins":
            self._begin(asked, read_ns)
        elif verdict == "refused":
            asked.refuse(429, "The line is full.")

    def _tell(self, path: str) -> Any:
        if path == "/truth":
            return [asdict(played) for played in self._played]
        if path == "/v1/models":
            model = {"id": "scripted", "object": "model"}
            return {"object": "list", "data": [model]}
        return {"status": "ok", "model": "scripted"}


def _can_be_watched(connected: socket.socket) -> bool:
    return os.name == "nt" or connected.fileno() < FD_SETSIZE


def parse(received: bytes) -> tuple[str, str, dict[str, Any], bytes] | None:
    """Path, X-Request-Id, body and what follows; None until it is whole."""
    head, found, rest = received.partition(b"\r\n\r\n")
    if not found:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    told = headers.get("content-length", "0")
    length = int(told) if told.isascii() and told.isdigit() else 0
    if len(rest) < length:
        return None
    try:
        body = json.loads(rest[:length] or b"{}")
    except (ValueError, RecursionError):
        body = {}
    path = first.split(" ")[1] if " " in first else ""
    name = headers.get("x-request-id", "")
    kept = body if isinstance(body, dict) else {}
    return path, name, kept, rest[length:]


class ScriptedServer:
    """The server in a process of its own, for as long as the block.

    `slots` and `max_waiting` are those of `Player`.
    """

    def __init__(
        self,
        script: Sequence[TimeLine],
        slots: int | None = None,
        max_waiting: int | None = None,
    ) -> None:
        Slots(slots, max_waiting)  # LabError here, not in the other process
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "script.json"
        path.write_text(timelines.to_json(script), encoding="utf-8")
        command = [sys.executable, "-m", __spec__.name, str(path)]
        if slots is not None:
            command += ["--slots", str(slots)]
        if max_waiting is not None:
            command += ["--max-waiting", str(max_waiting)]
        self._process = ServerProcess(command=command)

    @property
    def url(self) -> str:
        """http://127.0.0.1:port"""
        return self._process.url

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def truth(self) -> list[Played]:
        """What was played so far, in the order of the requests."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/truth", timeout=30) as reply:
            found = json.load(reply)
        return [
            Played(**{**each, "writes": [Write(**w) for w in each["writes"]]})
            for each in found
        ]

    def __enter__(self) -> ScriptedServer:
        self._process.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stop()
        self._folder.cleanup()


def main() -> None:
    """Play the script that is named until standard input closes."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("script", type=Path)
    words.add_argument("--slots", type=int)
    words.add_argument("--max-waiting", type=int)
    given = words.parse_args()
    script = timelines.from_json(given.script.read_text(encoding="utf-8"))
    player = Player(script, given.slots, given.max_waiting)
    stopped = threading.Event()
    threading.Thread(
        target=_stop_with_input, args=(stopped,), daemon=True
    ).start()
    print(player.url, flush=True)
    player.run(stopped)


def _stop_with_input(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


if __name__ == "__main__":
    main()
