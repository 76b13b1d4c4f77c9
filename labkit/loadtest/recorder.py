"""Writes evidence line by line, as things happen.

One thread writes, so that the threads that measure never wait for a disk.
It writes in the order in which it was told: the line of a request stands in
requests.jsonl only after all its events stand in events.jsonl.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from labkit.loadtest import evidence
from labkit.loadtest.plan import Planned
from labkit.loadtest.records import Arrival, Record

Line = tuple[str, Mapping[str, Any]]
NOT_KEPT = ("message", "startup")
"""Of a record: a message may name a host, and what is start-up follows from
the order of sending."""


class Recorder:
    """Appends to the files of a folder until the block ends.

    A torn last line is cut off first. `segment` is the number of the
    segment that is written now, from 1.
    """

    def __init__(self, folder: Path, segment: int) -> None:
        self.segment = segment
        self._folder = folder
        self._queue: SimpleQueue[Line | None] = SimpleQueue()
        self._error: OSError | None = None
        self._thread = threading.Thread(
            target=self._write, name="labkit-recorder", daemon=True
        )
        self._files: dict[str, _Chained] = {}

    def __enter__(self) -> Recorder:
        try:
            environment = (self._folder / evidence.ENVIRONMENT).read_bytes()
            for name in evidence.LINES:
                path = self._folder / name
                self._files[name] = _Chained(path, environment)
        except OSError as error:
            raise evidence.explain(error, self._folder) from error
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._queue.put(None)
        self._thread.join()
        for file in self._files.values():
            file.close()
        if kind is None:
            self.check()

    def check(self) -> None:
        """LabError when a line could not be written."""
        if self._error is not None:
            raise evidence.explain(self._error, self._folder)

    def start(self, time_ns: int) -> None:
        """The segment begins: `time_ns` is the origin of its clock."""
        self.mark(
            "segment_start",
            time_ns,
            utc=datetime.now(UTC).isoformat(timespec="seconds"),
            cut_bytes={n: f.cut for n, f in self._files.items() if f.cut},
        )

    def end(self, time_ns: int, reason: str) -> None:
        """The segment ends; what comes later is not written."""
        self.mark("segment_end", time_ns, reason=reason)

    def mark(self, kind: str, time_ns: int, **fields: Any) -> None:
        """The start or end of a segment or of a configuration."""
        self._event({"kind": kind, "time_ns": time_ns, **fields})

    def sent(self, request: str, time_ns: int) -> None:
        """A request is on its way."""
        self._event({"kind": "sent", "time_ns": time_ns, "request": request})

    def arrived(self, request: str, arrival: Arrival) -> None:
        """An event of a request came in."""
        self._event({"request": request, **vars(arrival)})

    def finished(self, record: Record, planned: Planned) -> None:
        """A request is over; from here on it is never measured again."""
        fields = {"segment": self.segment, **vars(record)}
        fields["arrivals"] = len(record.arrivals)
        fields["prompt_sha256"] = prompt_sha256(planned.prompt_ids)
        for name in NOT_KEPT:
            del fields[name]
        self._queue.put((evidence.REQUESTS, fields))

    def sample(self, configuration: str, **fields: Any) -> None:
        """What the sampler saw."""
        head = {"segment": self.segment, "configuration": configuration}
        self._queue.put((evidence.RSS, {**head, **fields}))

    def _event(self, fields: Mapping[str, Any]) -> None:
        self._queue.put((evidence.EVENTS, {"segment": self.segment, **fields}))

    def _write(self) -> None:
        """Until the segment has ended; a request that was given up may
        still be going on then."""
        ended = False
        while not ended and (line := self._queue.get()) is not None:
            name, fields = line
            ended = fields.get("kind") == "segment_end"
            if ended:
                fields = {**fields, "lines": self._counts()}
            try:
                self._files[name].append(fields)
            except OSError as error:
                self._error = error
                return

    def _counts(self) -> dict[str, int]:
        """How many lines the other files have: so one that is cut off
        their ends is missed."""
        names = (evidence.REQUESTS, evidence.RSS)
        return {name: self._files[name].lines for name in names}


class _Chained:
    """A file of lines, each linked to the one before."""

    def __init__(self, path: Path, environment: bytes) -> None:
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        self.cut = len(data) - whole
        self.lines = data.count(b"\n")
        last = data[:whole].rpartition(b',"chain":"')[2]
        digits = evidence.CHAIN_DIGITS
        self._chain = last[:digits].decode("ascii")
        if not whole:
            self._chain = evidence.genesis(environment, path.name)
        # Unbuffered: a line that was written survives this process.
        self._file = path.open("r+b", buffering=0)
        self._file.truncate(whole)
        self._file.seek(whole)

    def append(self, fields: Mapping[str, Any]) -> None:
        self._chain, line = evidence.linked(self._chain, fields)
        while line:
            line = line[self._file.write(line) :]
        self.lines += 1

    def close(self) -> None:
        self._file.close()


def prompt_sha256(ids: tuple[int, ...]) -> str:
    """The hash of a prompt: of its ids in decimal, with commas between."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
