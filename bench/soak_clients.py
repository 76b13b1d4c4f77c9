"""The clients of `soak.py`: what they send, and what came of it.

Most read their answers. Some leave, some read slowly, and some send what is
no request.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

PATIENT, LEAVES, MALFORMED, SLOW = "patient", "leaves", "malformed", "slow"
SHARES = {LEAVES: 0.10, MALFORMED: 0.05, SLOW: 0.02}
"""How clients behave; the others are patient."""
ANSWERED, REFUSED, LEFT, WRONG = "answered", "refused", "left", "wrong"
"""What comes of a request."""

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
STREAM = " stream"
STREAMS = ("/stream", COMPLETIONS + STREAM, CHAT + STREAM)
FORMS = ("/generate", COMPLETIONS, CHAT, *STREAMS)
PROMPTS = ("a", "Gravity is", "\u00e9\u20ac\U0001f600", "\u6f22\u5b57 " * 20)
MOST_TOKENS = 48
LONG_TOKENS = 700
"""Of answers that are left, or read slowly: more than socket buffers hold."""
LEAVE_AFTER_S = (0.0, 0.02, 0.3)
"""The last is longer than a half-closed client is waited for."""

TIMEOUT_S = 60.0
FULL_S = 0.1
"""A client that found the queue full waits so long, and asks again."""
SMALL_BUFFER = 4096
SLOW_START_S, SLOW_LINE_S = 0.5, 0.001


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A request on a connection of its own; later headers replace."""
    given = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    given |= dict(header.split(": ", 1) for header in headers)
    lines = [f"POST {path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


GOOD = b'{"prompt": "a", "max_new_tokens": 1}'
BAD: Sequence[tuple[str, bytes, int]] = (
    ("no JSON", post("/stream", b'{"prompt": '), 400),
    ("no object", post("/generate", b"[1]"), 400),
    ("no UTF-8", post("/generate", b'{"prompt": "\xff"}'), 400),
    (
        "wrong type",
        post("/stream", b'{"prompt": 1, "max_new_tokens": 1}'),
        400,
    ),
    ("unknown field", post(COMPLETIONS, b'{"prompt": "a", "x": 1}'), 400),
    ("no message", post(CHAT, b'{"messages": []}'), 400),
    ("too long", post("/stream", GOOD.replace(b"1", b"5000")), 400),
    ("other type", post("/stream", GOOD, "Content-Type: text/plain"), 415),
    ("other path", post("/nothing", GOOD), 404),
    (
        "other method",
        b"PUT /stream HTTP/1.1\r\nHost: localhost\r\n"
        b"Connection: close\r\n\r\n",
        405,
    ),
    ("other host", post("/stream", GOOD, "Host: evil.example"), 403),
    ("other site", post("/stream", GOOD, "Origin: http://evil.example"), 403),
    ("too large", post("/stream", bytes(1024 * 1024 + 1)), 413),
    ("long headers", post("/stream", GOOD, "X: " + "x" * 40_000), 431),
    ("no HTTP", b"hello\r\n\r\n", 400),
    ("bad length", post("/stream", GOOD, "Content-Length: -5"), 400),
    ("cut off", post("/stream", GOOD, "Content-Length: 999"), 400),
    ("other coding", post("/stream", GOOD, "Transfer-Encoding: gzip"), 501),
)
"""What is sent, by name, and the status that answers it."""


@dataclass(frozen=True)
class Plan:
    """One request to send, and how its client behaves.

    `form` is a route, or the name of a malformed request. A client that
    leaves does so after `events` of its stream or, without reading, after
    `wait_s` seconds. `seed` is for drawn tokens; None for greedy ones.
    """

    behaviour: str
    form: str
    prompt: str = ""
    new_tokens: int = 0
    seed: int | None = None
    events: int = 0
    wait_s: float = 0.0

    @property
    def path(self) -> str:
        """Where it goes."""
        return self.form.removesuffix(STREAM)

    def body(self) -> dict[str, Any]:
        """What is sent."""
        if self.path in ("/generate", "/stream"):
            return {"prompt": self.prompt, "max_new_tokens": self.new_tokens}
        body: dict[str, Any] = {"max_tokens": self.new_tokens}
        body |= {"ignore_eos": True, "seed": self.seed}
        body |= {"temperature": 0 if self.seed is None else 1}
        if self.form in STREAMS:
            wanted = ("include_usage", "continuous_usage_stats")
            options = dict.fromkeys(wanted, True)
            body |= {"stream": True, "stream_options": options}
        if self.path == COMPLETIONS:
            return body | {"prompt": self.prompt}
        message = {"role": "user", "content": self.prompt}
        return body | {"messages": [message]}


@dataclass(frozen=True)
class Outcome:
    """What a client saw of one request.

    `result` is one of the four above, the last with a `problem`. `ids` are
    those of a native answer, and `full` counts the 429s before it.
    """

    plan: Plan
    result: str
    problem: str = ""
    ids: tuple[int, ...] = ()
    full: int = 0


class Full(Exception):
    """The queue was full."""


def plans(count: int, seed: int) -> list[Plan]:
    """`count` plans in the shares above, shuffled."""
    source = random.Random(seed)  # noqa: S311 - gives the order again
    behaviours = [
        behaviour
        for behaviour, share in SHARES.items()
        for _ in range(round(share * count))
    ]
    behaviours += [PATIENT] * (count - len(behaviours))
    source.shuffle(behaviours)
    return [_plan(source, behaviour) for behaviour in behaviours]


def _plan(source: random.Random, behaviour: str) -> Plan:
    if behaviour == MALFORMED:
        return Plan(behaviour, source.choice([name for name, *_ in BAD]))
    form = source.choice(STREAMS if behaviour == SLOW else FORMS)
    plan = Plan(
        behaviour,
        form,
        source.choice(PROMPTS),
        source.randint(1, MOST_TOKENS),
        source.choice([None, source.randrange(1000)]),
    )
    if behaviour == PATIENT:
        return plan
    plan = replace(plan, new_tokens=LONG_TOKENS)
    if behaviour == SLOW:
        return plan
    if form in STREAMS and source.random() < 0.5:
        return replace(plan, events=source.randint(1, 20))
    return replace(plan, wait_s=source.choice(LEAVE_AFTER_S))


class Client:
    """One person at a time, on a thread of its own.

    Who is patient keeps a connection; everybody else has a new one.
    """

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._address = (target.hostname or "", target.port or 0)
        self._kept = self._connection()

    def close(self) -> None:
        """Let the kept connection go."""
        self._kept.close()

    def act(self, plan: Plan) -> Outcome:
        """Follow a plan to its end, again while the queue is full."""
        full = 0
        while True:
            try:
                return replace(self._act(plan), full=full)
            except Full:
                full += 1
                time.sleep(FULL_S)
            except (OSError, HTTPException, ValueError, KeyError) as error:
                self._kept.close()
                problem = f"{type(error).__name__}: {error}"
                return Outcome(plan, WRONG, problem, full=full)

    def _act(self, plan: Plan) -> Outcome:
        if plan.behaviour == MALFORMED:
            return self._malformed(plan)
        if plan.behaviour == PATIENT:
            return _answered(plan, _ask(self._kept, plan))
        if plan.behaviour == LEAVES:
            return self._leave(plan)
        with closing(self._connection()) as connection:
            connection.sock = self._socket(SMALL_BUFFER)
            return _answered(plan, _ask(connection, plan), slowly=True)

    def _malformed(self, plan: Plan) -> Outcome:
        sent, wanted = next((s, w) for n, s, w in BAD if n == plan.form)
        with self._socket() as raw:
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            with raw.makefile("rb") as answer:
                received = answer.read()
        status = int(received.split(b" ", 2)[1])
        head, _, body = received.partition(b"\r\n\r\n")
        json.loads(body)
        if status == wanted and head.count(b"HTTP/1.") == 1:
            return Outcome(plan, REFUSED)
        return Outcome(plan, WRONG, f"status {status} instead of {wanted}")

    def _leave(self, plan: Plan) -> Outcome:
        with closing(self._connection()) as connection:
            if plan.events:
                with _ask(connection, plan) as reply:
                    events = _events(reply)
                    for _ in range(plan.events):
                        next(events)
            else:
                _send(connection, plan)
                time.sleep(plan.wait_s)
        return Outcome(plan, LEFT)

    def _connection(self) -> HTTPConnection:
        return HTTPConnection(*self._address, timeout=TIMEOUT_S)

    def _socket(self, buffer: int | None = None) -> socket.socket:
        made = socket.socket()
        made.settimeout(TIMEOUT_S)
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.connect(self._address)
        return made


def _send(connection: HTTPConnection, plan: Plan) -> None:
    headers = {"Content-Type": "application/json"}
    body = json.dumps(plan.body()).encode()
    connection.request("POST", plan.path, body, headers)


def _ask(connection: HTTPConnection, plan: Plan) -> HTTPResponse:
    """An answer that has begun; Full, or ValueError for a refusal."""
    _send(connection, plan)
    reply = connection.getresponse()
    if reply.status == 200:
        return reply
    body = json.loads(reply.read())
    code = body["error"]["code"]
    if (reply.status, code) == (429, "queue_full"):
        raise Full
    raise ValueError(f"{reply.status} {code}")


def _answered(
    plan: Plan, reply: HTTPResponse, slowly: bool = False
) -> Outcome:
    """Read to the end and check that it is a whole answer."""
    if plan.form not in STREAMS:
        document = json.loads(reply.read())
        ids = tuple(document.get("ids", ()))
        made = document.get("new_tokens")
        if plan.path != "/generate":
            made = document["usage"]["completion_tokens"]
    else:
        time.sleep(SLOW_START_S if slowly else 0.0)
        events = list(_events(reply, SLOW_LINE_S if slowly else 0.0))
        native = plan.path == "/stream"
        ids, made = _native(events) if native else ((), _openai(events))
    if made == plan.new_tokens:
        return Outcome(plan, ANSWERED, ids=ids)
    return Outcome(plan, WRONG, f"{made} tokens, not {plan.new_tokens}")


def _events(reply: HTTPResponse, pause_s: float = 0.0) -> Iterator[str]:
    """The data of each event."""
    for line in reply:
        if line.startswith(b"data: "):
            yield line.decode("ascii").removeprefix("data: ").strip()
            time.sleep(pause_s)


def _native(events: Sequence[str]) -> tuple[tuple[int, ...], int]:
    """Ids, and how many the last event says there were."""
    _, *tokens, done = map(json.loads, events)
    ids = tuple(token["id"] for token in tokens)
    if len(ids) != done["new_tokens"]:
        raise ValueError(f"{len(ids)} events, {done['new_tokens']} tokens")
    return ids, done["new_tokens"]


def _openai(events: Sequence[str]) -> int:
    """How many tokens there were by the usage, behind the one end."""
    *chunks, end = events
    documents = [json.loads(chunk) for chunk in chunks]
    reasons = [
        choice["finish_reason"]
        for document in documents
        for choice in document["choices"]
        if choice["finish_reason"] is not None
    ]
    if end != "[DONE]" or len(reasons) != 1 or documents[-1]["choices"]:
        raise ValueError(f"it ended with {end!r} and the reasons {reasons}")
    return int(documents[-1]["usage"]["completion_tokens"])


def disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    """Greedy native answers to one prompt begin alike; where they do not."""
    longest: dict[str, tuple[int, ...]] = {}
    for outcome in outcomes:
        known = longest.get(outcome.plan.prompt, ())
        longest[outcome.plan.prompt] = max(known, outcome.ids, key=len)
    return [
        f"another answer to {outcome.plan.prompt[:20]!r}"
        for outcome in outcomes
        if longest[outcome.plan.prompt][: len(outcome.ids)] != outcome.ids
    ]
