"""A server whose right answers are known: it plays time lines.

    python -m labkit.loadtest.scripted SCRIPT

The n-th request gets the n-th time line of the script (after the last the
first again), whatever it asks. Steps are played on an absolute schedule from
the moment at which the request had been read. GET /truth tells what was done
when. One thread waits in one `select`, whose time-out has microseconds (that
of epoll, and so of asyncio, has milliseconds).
"""

from __future__ import annotations

import heapq
import json
import select
import socket
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from labkit.loadtest import timelines
from labkit.loadtest.playing import Peer, Played, Playing, Write, answer
from labkit.loadtest.timelines import TimeLine
from labkit.loadtest.wire import now_ns
from labkit.serving.process import ServerProcess

IDLE_S = 0.1
MAX_REQUEST_BYTES = 4 * 1024 * 1024
ROUTES = ("/stream", "/v1/completions", "/v1/chat/completions")


class Player:
    """The server itself; it listens at `url` from the beginning."""

    def __init__(self, script: Sequence[TimeLine]) -> None:
        self._script = script
        self._played: list[Played] = []
        self._peers: list[Peer] = []
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
            while self._due and self._due[0][0] <= now_ns():
                _, _, playing = heapq.heappop(self._due)
                playing.advance()
                self._schedule(playing)
            self._peers = [peer for peer in self._peers if peer.open]
            self._wait()
        for peer in self._peers:
            peer.close()
        self._listener.close()

    def _wait(self) -> None:
        """Until a step is due, or something can be read or sent."""
        wait_s = IDLE_S
        if self._due:
            wait_s = min(wait_s, max(0, self._due[0][0] - now_ns()) / 1e9)
        reading = {peer.socket: peer for peer in self._peers}
        sending = [peer.socket for peer in self._peers if peer.unsent]
        came, free, _ = select.select(
            [self._listener, *reading], sending, [], wait_s
        )
        for ready in free:
            reading[ready].write()
        for ready in came:
            if ready is self._listener:
                self._accept()
            elif reading[ready].open:
                self._receive(reading[ready])

    def _schedule(self, playing: Playing) -> None:
        due_ns = playing.due_ns
        if due_ns is not None:
            self._turn += 1  # decides between steps that are due together
            heapq.heappush(self._due, (due_ns, self._turn, playing))

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                connected, _ = self._listener.accept()
                self._peers.append(Peer(connected, now_ns()))

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
            dialect = timelines.Dialect(path, body)
            line = self._script[number]
            self._schedule(Playing(peer, played, line, dialect))
        else:
            peer.write(answer(200, json.dumps(self._tell(path)).encode()))

    def _tell(self, path: str) -> Any:
        if path == "/truth":
            return [asdict(played) for played in self._played]
        if path == "/v1/models":
            model = {"id": "scripted", "object": "model"}
            return {"object": "list", "data": [model]}
        return {"status": "ok", "model": "scripted"}


def parse(received: bytes) -> tuple[str, str, dict[str, Any], bytes] | None:
    """Path, X-Request-Id, body and what follows; None until it is whole."""
    head, found, rest = received.partition(b"\r\n\r\n")
    if not found:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", "0"))
    if len(rest) < length:
        return None
    try:
        body = json.loads(rest[:length] or b"{}")
    except ValueError:
        body = {}
    path = first.split(" ")[1] if " " in first else ""
    name = headers.get("x-request-id", "")
    kept = body if isinstance(body, dict) else {}
    return path, name, kept, rest[length:]


class ScriptedServer:
    """The server in a process of its own, for as long as the block."""

    def __init__(self, script: Sequence[TimeLine]) -> None:
        self._script = script
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "script.json"
        path.write_text(timelines.to_json(script), encoding="utf-8")
        command = (sys.executable, "-m", __spec__.name, str(path))
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
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    player = Player(timelines.from_json(text))
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
