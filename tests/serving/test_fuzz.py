"""Some hundreds of random requests: JSON comes back, and nothing breaks."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import requests

TIMEOUT_S = 10
FIELDS = ["prompt", "prompt_ids", "max_new_tokens", "", "a\0b", "\ud83d"]
SCALARS = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    -1,
    64,
    255,
    256,
    2**63,
    1.0,
    1e308,
    "",
    "a",
    "boo",
    "\ud800",
    "é\u202e\0",
    float("nan"),
    float("-inf"),
]


def random_value(source: random.Random, depth: int = 0) -> Any:
    kind = source.random()
    if depth > 3 or kind < 0.6:
        return source.choice(SCALARS)
    size = source.randrange(4)
    if kind < 0.85:
        return [random_value(source, depth + 1) for _ in range(size)]
    return {
        source.choice(FIELDS): random_value(source, depth + 1)
        for _ in range(size)
    }


def random_request(source: random.Random) -> bytes:
    """Mostly near a valid request, then perhaps damaged byte by byte."""
    document: Any = {"prompt": "a", "max_new_tokens": 1}
    if source.random() < 0.5:
        document = {"prompt_ids": [1, 2], "max_new_tokens": 2}
    for _ in range(source.randrange(3)):
        document[source.choice(FIELDS)] = random_value(source)
    if source.random() < 0.1:
        document = random_value(source)
    raw = bytearray(json.dumps(document).encode())
    for _ in range(source.choice([0, 0, 0, 1, 5])):
        raw[source.randrange(len(raw))] = source.randrange(256)
    return bytes(raw)


def test_random_bodies(url: str, assert_serving: Callable[[], None]) -> None:
    source = random.Random(2)
    seen = set()
    with requests.Session() as session:
        for _ in range(500):
            raw = random_request(source)
            answer = session.post(
                url + "/generate",
                data=raw,
                headers={"Content-Type": "application/json"},
                timeout=TIMEOUT_S,
            )
            assert answer.headers["Content-Type"] == "application/json", raw
            assert answer.status_code in (200, 400), raw
            document = answer.json()
            if answer.status_code == 200:
                seen.add("ok")
                assert set(document) >= {"text", "ids"}, raw
            else:
                seen.add(document["error"]["code"])
                assert len(answer.content) < 400, raw
    # The bodies were varied enough to reach most of the rules.
    assert len(seen) >= 10, seen
    assert_serving()


def random_http(source: random.Random) -> bytes:
    """A request with some bytes changed, dropped or added anywhere."""
    body = b'{"prompt": "a", "max_new_tokens": 1}'
    raw = bytearray(
        b"POST /generate HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    for _ in range(source.randrange(1, 6)):
        where = source.randrange(len(raw))
        raw[where : where + source.randrange(3)] = source.randbytes(
            source.randrange(3)
        )
    return bytes(raw)


def test_random_http(
    raw: Callable[[bytes], bytes],
    split_replies: Callable[[bytes], list[Any]],
    assert_serving: Callable[[], None],
) -> None:
    source = random.Random(3)
    statuses = set()
    for _ in range(300):
        sent = random_http(source)
        replies = split_replies(raw(sent))
        assert replies, sent
        for reply in replies:
            statuses.add(reply.status)
            assert reply.headers["Content-Type"] == "application/json", sent
            json.loads(reply.body)
            assert b"Traceback" not in reply.body
    assert {200, 400, 404, 405, 415} <= statuses
    assert_serving()
