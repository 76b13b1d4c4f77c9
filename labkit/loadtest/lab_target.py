"""The course's own protocol: POST /stream. Standard library only."""

from __future__ import annotations

from typing import Any

from labkit.loadtest.records import Arrival, Request
from labkit.loadtest.targets import (
    Fault,
    Reading,
    authorization,
    document_of,
    integer,
    one_line,
    text_of,
)
from labkit.loadtest.wire import Address


class LabTarget:
    """The course's server: POST /stream."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        vocabulary: int | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self.address = Address.of(url)
        self.path = f"{self.address.prefix}/stream"
        self.headers = authorization(key)

    def body(self, request: Request) -> dict[str, Any]:
        """Exactly `new_tokens` tokens are asked for."""
        prompt = (
            {"prompt": request.text}
            if request.prompt_ids is None
            else {"prompt_ids": list(request.prompt_ids)}
        )
        return {**prompt, "max_new_tokens": request.new_tokens}

    def reading(self) -> Reading:
        return _LabReading(vocabulary=self._vocabulary)


class _LabReading(Reading):
    _started = False
    """Whether there was a start event: the first of them counts."""

    def _read(self, name: str, data: str, time_ns: int) -> Arrival | None:
        document = document_of(data)
        if name == "start":
            start_ns = integer(document, "start_ns")
            if not self._started:
                self._started, self.start_ns = True, start_ns
                self.prompt_tokens = integer(document, "prompt_tokens")
                self.queued_ns = integer(document, "queued_ns")
            return Arrival(time_ns, "start", server_ns=start_ns)
        if name not in ("token", "done", "error"):
            return Arrival(time_ns, "other")
        stamp = integer(document, "time_ns")
        if name == "error":
            self.error = one_line(str(document.get("message", "")))
            self.done = True
            return Arrival(time_ns, "error", (), 0, stamp)
        if name == "done":
            self.new_tokens = integer(document, "new_tokens")
            self.counted, self.done = "ids", True
            return Arrival(time_ns, "done", (), 0, stamp)
        index, token = integer(document, "index"), integer(document, "id")
        if token is None:
            raise Fault("malformed", "a token event has no id")
        if index not in (None, self.arrived):
            raise Fault(
                "count_mismatch",
                f"token {index} came where {self.arrived} was due",
            )
        text = text_of(document, "text")
        return Arrival(time_ns, "token", (token,), 1, stamp, text)
