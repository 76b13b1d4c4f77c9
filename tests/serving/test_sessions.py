"""What public load tools sent once, sent again, with what they read of it.

The sessions were recorded by bench/record_session.py with the real tools
before the course's model. Here a scripted model answers: it says other
words, in answers of the same shape.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

TIMEOUT_S = 10
SESSIONS = Path(__file__).with_name("sessions")
RECORDER = Path(__file__).parents[2] / "bench" / "record_session.py"
ANSWER = b"Paris\x04 is where the Seine is. "
"""Byte 4 would end an answer, after six tokens."""
SHORT = 6
OF_THE_COMMAND = {"weights", "threads"}
"""What `python -m labkit serve` adds to GET /health."""
SIZE_LIMIT_BYTES = 64 * 1024


def exchanges() -> list[Any]:
    """Every exchange of every session, with a name for pytest."""
    found = []
    for path in sorted(SESSIONS.glob("*.json")):
        session = json.loads(path.read_text(encoding="utf-8"))
        for run, told in enumerate(session["runs"]):
            found += [
                pytest.param(each, id=f"{path.stem}-{run}-{number}")
                for number, each in enumerate(told["exchanges"])
            ]
    return found


EXCHANGES = exchanges()
STREAMS = [p for p in EXCHANGES if "stream" in p.values[0]["answer"]]
IDS_ASKED = [
    p
    for p in STREAMS
    if p.values[0]["request"]["body"].get("return_token_ids")
]


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    """`bench/record_session.py`, which tells the shape of an answer."""
    spec = importlib.util.spec_from_file_location("recorder", RECORDER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "recorder", module)
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def backend(backend: Any) -> Any:
    """The scripted model with the name, and room, of the recorded one."""

    def steps(request: Any) -> Iterator[int]:
        for token in islice(cycle(ANSWER), request.max_new_tokens):
            yield token
            if request.stop_at_end and token in backend.end_ids:
                return

    backend.name = "smollm2-135m-instruct-q4_1"
    backend.context = 8192
    backend.steps = steps
    return backend


@pytest.fixture
def ask(url: str) -> Callable[[Any], requests.Response]:
    """Send a recorded request."""

    def send(request: Any) -> requests.Response:
        body = request["body"]
        return requests.request(
            request["method"],
            url + request["path"],
            data=None if body is None else json.dumps(body).encode(),
            headers=request["headers"],
            timeout=TIMEOUT_S,
        )

    return send


def wanted_tokens(body: Any) -> int:
    """How many tokens the scripted model gives to a request."""
    most = body.get("max_completion_tokens") or body["max_tokens"]
    return int(most if body.get("ignore_eos") else min(most, SHORT))


def prompt_bytes(body: Any) -> int:
    """What a prompt counts where each byte is a token."""
    if "prompt" in body:
        return len(body["prompt"].encode())
    contents = [message["content"] for message in body["messages"]]
    texts = [
        content
        if isinstance(content, str)
        else "".join(part["text"] for part in content)
        for content in contents
    ]
    return len("".join(texts).encode())


def events_of(answer: requests.Response) -> list[Any]:
    """The chunks of a stream; its last line has to be [DONE]."""
    assert answer.status_code == 200, answer.text
    *data, last = [
        line.removeprefix("data: ")
        for line in answer.content.decode().split("\n\n")
        if line
    ]
    assert last == "[DONE]"
    return [json.loads(each) for each in data]


def test_there_is_a_session_of_each_tool() -> None:
    tools = {
        json.loads(path.read_text(encoding="utf-8"))["tool"].split()[0]
        for path in SESSIONS.glob("*.json")
    }
    assert tools == {"guidellm", "llama-benchy"}
    assert len(IDS_ASKED) >= 2
    assert len(STREAMS) > len(IDS_ASKED)


@pytest.mark.parametrize("path", sorted(SESSIONS.glob("*.json")))
def test_a_session_is_small_and_names_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < SIZE_LIMIT_BYTES
    for word in ("user-agent", "/home", "/tmp", "/root", "\\\\", "Users"):
        assert word not in text, word


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_answer_has_the_recorded_shape(
    exchange: Any,
    ask: Callable[[Any], requests.Response],
    recorder: ModuleType,
) -> None:
    recorded = exchange["answer"]
    answer = ask(exchange["request"])
    kind = answer.headers["Content-Type"]
    found = recorder.shape_of_answer(answer.status_code, kind, answer.content)
    assert recorded["status"] == 200
    assert found["status"] == 200, found
    assert kind == recorded["content_type"]
    if "stream" not in recorded:
        missing = {*recorder.fields(recorded["body"])}
        missing -= {*recorder.fields(found["body"])}
        assert missing <= OF_THE_COMMAND
        return
    runs = [each["fields"] for each in found["stream"]["events"]]
    assert runs == [e["fields"] for e in recorded["stream"]["events"]]
    assert found["stream"]["done"]


@pytest.mark.parametrize("exchange", STREAMS)
def test_a_stream_has_a_chunk_for_each_token_and_counts_them(
    exchange: Any, ask: Callable[[Any], requests.Response]
) -> None:
    body = exchange["request"]["body"]
    tokens = wanted_tokens(body)
    chunks = events_of(ask(exchange["request"]))
    choices = [choice for c in chunks for choice in c["choices"]]
    texts = [
        c["text"] if "text" in c else c["delta"]["content"] for c in choices
    ]
    spoken = [text for text in texts if text]
    assert spoken == [chr(each) for each in islice(cycle(ANSWER), tokens)]
    reason = "stop" if tokens == SHORT else "length"
    assert choices[-1]["finish_reason"] == reason
    options = body.get("stream_options", {})
    counts = [c["usage"] for c in chunks if c.get("usage")]
    assert bool(counts) == bool(options.get("include_usage"))
    if not counts:
        return
    told = [each["completion_tokens"] for each in counts]
    if options.get("continuous_usage_stats"):
        assert sorted({*told} - {0}) == [*range(1, tokens + 1)]
    assert counts[-1] == {
        "prompt_tokens": prompt_bytes(body),
        "completion_tokens": tokens,
        "total_tokens": prompt_bytes(body) + tokens,
    }


@pytest.mark.parametrize("exchange", IDS_ASKED)
def test_llama_benchy_counts_tokens_by_their_ids(
    exchange: Any, ask: Callable[[Any], requests.Response]
) -> None:
    """It takes the ids only if every chunk with content has them."""
    chunks = events_of(ask(exchange["request"]))
    choices = [c["choices"][0] for c in chunks if c["choices"]]
    with_content = [c for c in choices if c["delta"].get("content")]
    ids = [each for c in with_content for each in c["token_ids"]]
    tokens = wanted_tokens(exchange["request"]["body"])
    assert ids == [*islice(cycle(ANSWER), tokens)]


@pytest.mark.parametrize(
    "exchange",
    [
        p
        for p in EXCHANGES
        if p not in STREAMS and p.values[0]["request"]["method"] == "POST"
    ],
)
def test_a_whole_answer_has_text_and_usage(
    exchange: Any, ask: Callable[[Any], requests.Response]
) -> None:
    """llama-benchy's warm-up reads the count of the prompt, its test of
    coherence the text."""
    body = exchange["request"]["body"]
    tokens = wanted_tokens(body)
    answer = ask(exchange["request"]).json()
    assert answer["usage"]["prompt_tokens"] == prompt_bytes(body)
    assert answer["usage"]["completion_tokens"] == tokens
    (choice,) = answer["choices"]
    assert choice["message"]["content"].startswith("P")
    if tokens == SHORT:
        assert "paris" in choice["message"]["content"].lower()
        assert choice["finish_reason"] == "stop"


def test_the_first_model_listed_is_the_one_that_is_asked_for(
    ask: Callable[[Any], requests.Response],
) -> None:
    """guidellm, told no model, takes the first of the list."""
    request = {"method": "GET", "path": "/v1/models", "headers": {}}
    listed = ask(request | {"body": None}).json()["data"][0]["id"]
    bodies = [p.values[0]["request"]["body"] for p in EXCHANGES]
    assert {body["model"] for body in bodies if body} == {listed}
