"""What a scripted server plays, and how it reads on the wire.

A time line says what happens to one request, in ms from the moment at which
a server begins with it. `Dialect` turns its steps into bytes of the course's
/stream or of OpenAI's routes. Pure functions; standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from labkit.errors import LabError
from labkit.loadtest.records import Record

Do = Literal[
    "start",  # the event before any token: a role in a chat
    "tokens",  # `count` tokens in one write; an OpenAI chunk has them all
    "comment",  # a keep-alive
    "error",  # an error event
    "done",  # the terminal event; `count`, if any, is the count it tells
    "raw",  # `text` as it is, one byte for each character (Latin-1)
    "end",  # the answer ends as HTTP wants it
    "cut",  # the connection is closed in the middle
    "reset",  # the same, and the client is told (RST)
    "hang",  # nothing any more
]
LAST = frozenset({"end", "cut", "reset", "hang"})
FIRST_ID = 1000
WORDS = (" one", " two", " three", " four", " five", " six")
"""The texts of tokens, in turn."""


@dataclass(frozen=True)
class Step:
    """Something that happens `at_ms` after the request was begun."""

    at_ms: float
    do: Do
    count: int | None = None
    text: str = ""


@dataclass(frozen=True)
class TimeLine:
    """The answer to one request.

    Its head is sent at `head_ms`. With a `status` other than 200 there is
    only a refusal, whose message is that of the first step, if any. Where
    the last step does not end the answer, it ends well at once.
    """

    steps: tuple[Step, ...] = ()
    status: int = 200
    head_ms: float = 0.0
    content_type: str = "text/event-stream"

    def __post_init__(self) -> None:
        times = [self.head_ms, *(step.at_ms for step in self.steps)]
        if times != sorted(times) or self.head_ms < 0:
            raise LabError("The steps of a time line are in order of time.")
        unknown = {step.do for step in self.steps} - set(get_args(Do))
        if unknown:
            raise LabError(f"A step cannot do {', '.join(sorted(unknown))}.")

    def whole(self) -> tuple[Step, ...]:
        """The steps, with an end."""
        if self.steps and self.steps[-1].do in LAST:
            return self.steps
        at_ms = self.steps[-1].at_ms if self.steps else self.head_ms
        return (*self.steps, Step(at_ms, "end"))


def one_by_one(times_ms: Sequence[float], start_ms: float = 0.0) -> TimeLine:
    """A start, single tokens at these times, and a terminal event."""
    tokens = [Step(at_ms, "tokens", 1) for at_ms in times_ms]
    done = Step(times_ms[-1] if times_ms else start_ms, "done")
    return TimeLine((Step(start_ms, "start"), *tokens, done))


def replayed(record: Record) -> TimeLine:
    """The time line of a request that a server has answered.

    Its tokens are as far from its start as the server's own stamps say, and
    so is its end: what it waited, and the way to the client, are left out.
    LabError for a record that failed or has no such stamps.
    """
    stamped = [
        (arrival.kind, arrival.tokens, arrival.server_ns)
        for arrival in record.arrivals
        if arrival.kind in ("token", "done")
    ]
    start_ns = record.start_ns
    if not record.ok or start_ns is None:
        raise LabError(
            f"Request {record.request} cannot be replayed: take one that"
            " succeeded, of a server that says when it began."
        )
    steps = [Step(0.0, "start")]
    for kind, tokens, server_ns in stamped:
        if server_ns is None:
            raise LabError(
                f"Request {record.request} cannot be replayed: its tokens"
                " have no stamps of the server; take the course's /stream."
            )
        at_ms = (server_ns - start_ns) / 1e6
        steps.append(
            Step(at_ms, "tokens", tokens)
            if kind == "token"
            else Step(at_ms, "done")
        )
    return TimeLine(tuple(steps))


def to_json(lines: Sequence[TimeLine]) -> str:
    """A script: the time lines that requests get, in turn."""
    return json.dumps([asdict(line) for line in lines])


def from_json(text: str) -> list[TimeLine]:
    """The time lines of a script; LabError for anything else."""
    try:
        found = [
            TimeLine(
                **{**line, "steps": tuple(Step(**s) for s in line["steps"])}
            )
            for line in json.loads(text)
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise LabError(f"This is no script of time lines: {error}.") from None
    if not found:
        raise LabError("A script has at least one time line.")
    return found


class Dialect:
    """Writes the events of one answer; `body` is what was asked.

    The start event of /stream tells `queued_ns` and `start_ns`; where they
    are not given, both are the moment of that event.
    """

    def __init__(
        self,
        path: str,
        body: Mapping[str, Any],
        queued_ns: int | None = None,
        start_ns: int | None = None,
    ) -> None:
        self._queued_ns = queued_ns
        self._start_ns = start_ns
        self._native = path == "/stream"
        self._chat = path.endswith("/chat/completions")
        options = body.get("stream_options")
        options = options if isinstance(options, dict) else {}
        self._usage = bool(options.get("include_usage"))
        self._each = bool(options.get("continuous_usage_stats"))
        ids = body.get("prompt_ids")
        self._prompt_tokens = (len(ids) if isinstance(ids, list) else 0) or 1
        self.sent = 0
        """Tokens so far."""

    def event(self, step: Step, now_ns: int) -> bytes:
        """The bytes of a step that writes an event; it may be none."""
        if step.do == "comment":
            return b": keep-alive\n\n"
        if step.do == "raw":
            return step.text.encode("latin-1")
        write = self._lab if self._native else self._openai
        return write(step, now_ns)

    def _lab(self, step: Step, now_ns: int) -> bytes:
        if step.do == "start":
            data: dict[str, Any] = {"prompt_tokens": self._prompt_tokens}
            moments = {
                "queued_ns": self._queued_ns,
                "start_ns": self._start_ns,
            }
            for name, moment in moments.items():
                data[name] = now_ns if moment is None else moment
            return _event({"model": "scripted", **data}, "start")
        if step.do == "tokens":
            return b"".join(
                self._lab_token(now_ns) for _ in range(step.count or 1)
            )
        if step.do == "done":
            count = self.sent if step.count is None else step.count
            data = {"reason": "length", "new_tokens": count}
            return _event({**data, "time_ns": now_ns}, "done")
        data = {"code": "scripted", "message": "This error is in the script."}
        return _event({**data, "time_ns": now_ns}, "error")

    def _lab_token(self, now_ns: int) -> bytes:
        data = {"index": self.sent, "id": FIRST_ID + self.sent}
        text = WORDS[self.sent % len(WORDS)]
        self.sent += 1
        return _event({**data, "text": text, "time_ns": now_ns}, "token")

    def _openai(self, step: Step, now_ns: int) -> bytes:
        if step.do == "start":
            return _event(self._chunk("", None, role=True))
        if step.do == "tokens":
            count = step.count or 1
            places = range(self.sent, self.sent + count)
            self.sent += count
            text = "".join(WORDS[place % len(WORDS)] for place in places)
            return _event(self._chunk(text, None))
        if step.do == "done":
            self.sent = self.sent if step.count is None else step.count
            parts = [_event(self._chunk("", "length"))]
            if self._usage:
                parts.append(_event(self._chunk(None, None)))
            return b"".join([*parts, b"data: [DONE]\n\n"])
        return _event({"error": {"message": "This error is in the script."}})

    def _chunk(
        self, text: str | None, reason: str | None, *, role: bool = False
    ) -> dict[str, Any]:
        """A chunk; without text, the last one, which has usage alone."""
        content: dict[str, Any] = {"text": text}
        if self._chat:
            delta = {"content": text}
            content = {
                "delta": {"role": "assistant"} | delta if role else delta
            }
        choice = {"index": 0, **content, "finish_reason": reason}
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        chunk: dict[str, Any] = {"id": "scripted", "object": kind}
        chunk |= {"created": 0, "model": "scripted"}
        chunk["choices"] = [] if text is None else [choice]
        if self._each or text is None:
            counts = {"completion_tokens": self.sent}
            counts["prompt_tokens"] = self._prompt_tokens
            counts["total_tokens"] = self._prompt_tokens + self.sent
            chunk["usage"] = counts
        return chunk


def refusal(status: int, message: str) -> bytes:
    """The body of an HTTP error, of any route."""
    error = {"code": status, "message": message}
    return json.dumps({"error": error}).encode()


def _event(data: dict[str, Any], name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode("ascii")
