"""The OpenAI routes, by the official client and byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import openai
import pytest
import requests

from labkit.generation import Sampling
from labkit.serving.engine import SingleSlotEngine

TIMEOUT_S = 10


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S
    ) as made:
        yield made


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object) == ("scripted", "model")


@pytest.mark.parametrize("prompt", ["a", ["a"], [97], [[97]]])
def test_a_completion(client: openai.OpenAI, prompt: Any) -> None:
    done = client.completions.create(
        model="scripted", prompt=prompt, max_tokens=3, temperature=0
    )
    (choice,) = done.choices
    assert (choice.text, choice.finish_reason) == ("bcd", "length")
    assert done.usage is not None
    usage = done.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (1, 3)
    assert usage.total_tokens == 4
    assert done.object == "text_completion"


def test_a_streamed_completion(client: openai.OpenAI) -> None:
    chunks = list(
        client.completions.create(
            model="scripted",
            prompt="a",
            max_tokens=3,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    texts = [c.choices[0].text for c in chunks if c.choices]
    assert texts == ["b", "c", "d", ""]
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons == [None, None, None, "length"]
    assert [c.usage for c in chunks[:-1]] == [None] * 4
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3
    assert len({c.id for c in chunks}) == 1


MESSAGES: Any = [
    {"role": "system", "content": "x"},
    {"role": "user", "content": [{"type": "text", "text": "a"}]},
]


def test_a_chat(client: openai.OpenAI, backend: Any) -> None:
    backend.answers = {b"xa": b"Hi\x04!"}
    done = client.chat.completions.create(model="scripted", messages=MESSAGES)
    (choice,) = done.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == "Hi\x04"
    assert choice.finish_reason == "stop"
    assert done.usage is not None
    assert done.usage.completion_tokens == 3


def test_a_streamed_chat(client: openai.OpenAI, backend: Any) -> None:
    backend.answers = {b"xa": "é!".encode()}
    chunks = list(
        client.chat.completions.create(
            model="scripted", messages=MESSAGES, max_tokens=3, stream=True
        )
    )
    deltas = [c.choices[0].delta for c in chunks]
    assert [d.role for d in deltas] == ["assistant", *[None] * 4]
    assert [d.content for d in deltas] == ["", "", "é", "!", ""]
    assert chunks[-1].choices[0].finish_reason == "length"
    assert all(c.usage is None for c in chunks)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string(
    client: openai.OpenAI, backend: Any, stream: bool
) -> None:
    backend.answers = {b"a": b"one two three"}
    done: Any = client.completions.create(
        model="scripted",
        prompt="a",
        max_tokens=13,
        stop=["two", "x"],
        stream=stream,
    )
    chunks = list(done) if stream else [done]
    assert "".join(c.choices[0].text for c in chunks) == "one "
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert backend.open == 0


def test_how_a_token_is_drawn(client: openai.OpenAI, backend: Any) -> None:
    def ask(**options: Any) -> Any:
        client.completions.create(
            model="scripted", prompt="a", max_tokens=1, **options
        )
        return backend.requests[-1]

    assert ask(temperature=0).sampling is None
    drawn = ask(temperature=0.5, top_p=0.9, seed=-7).sampling
    assert drawn == Sampling(0.5, top_p=0.9, seed=-7)
    one, other = ask().sampling, ask().sampling
    assert (one.temperature, one.top_p) == (1.0, 1.0)
    assert one.seed != other.seed
    assert ask().stop_at_end
    assert not ask(extra_body={"ignore_eos": True}).stop_at_end


def test_usage_in_each_chunk(client: openai.OpenAI) -> None:
    chunks = client.completions.create(
        model="scripted",
        prompt="a",
        max_tokens=2,
        stream=True,
        extra_body={"stream_options": {"continuous_usage_stats": True}},
    )
    counts = [c.usage.completion_tokens for c in chunks if c.usage]
    assert counts == [1, 2, 2]


IDS = {"return_token_ids": True}


def test_the_ids_of_a_completion(client: openai.OpenAI, backend: Any) -> None:
    backend.answers = {b"a": "é!".encode()}
    done = client.completions.create(
        model="scripted", prompt="a", max_tokens=3, extra_body=IDS
    )
    choice: Any = done.choices[0]
    assert choice.prompt_token_ids == [97]
    assert choice.token_ids == [0xC3, 0xA9, 33]
    chunks: Any = client.completions.create(
        model="scripted",
        prompt="a",
        max_tokens=3,
        stream=True,
        extra_body=IDS,
    )
    choices = [chunk.choices[0].to_dict() for chunk in chunks]
    assert [c["text"] for c in choices] == ["", "é", "!", ""]
    assert [c["token_ids"] for c in choices] == [[0xC3], [0xA9], [33], []]
    prompts = [c.get("prompt_token_ids") for c in choices]
    assert prompts == [[97], None, None, None]


def test_the_ids_of_a_chat(client: openai.OpenAI) -> None:
    def ask(**more: Any) -> Any:
        return client.chat.completions.create(
            model="scripted", messages=MESSAGES, max_tokens=2, **more
        )

    done = ask(extra_body=IDS)
    assert done.prompt_token_ids == [120, 97]
    assert done.choices[0].token_ids == [98, 99]
    chunks = [chunk.to_dict() for chunk in ask(stream=True, extra_body=IDS)]
    ids = [chunk["choices"][0].get("token_ids") for chunk in chunks]
    assert ids == [None, [98], [99], []]
    prompts = [chunk.get("prompt_token_ids") for chunk in chunks]
    assert prompts == [[120, 97], *[None] * 3]
    silent = [chunk.to_json() for chunk in ask(stream=True)]
    assert not any("token_ids" in chunk for chunk in silent)


def test_a_least_count_of_tokens_needs_ignore_eos(
    client: openai.OpenAI, backend: Any
) -> None:
    backend.answers = {b"a": b"x\x04yz"}
    done = client.completions.create(
        model="scripted",
        prompt="a",
        max_tokens=4,
        extra_body={"min_tokens": 4, "ignore_eos": True},
    )
    assert done.usage is not None
    assert done.usage.completion_tokens == 4


BASE = {"model": "scripted", "prompt": "a"}
CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "a"}]}
LEAST = {"min_tokens": 1, "ignore_eos": True}
REFUSED_IDS = ("invalid_value", "return_token_ids")
REFUSED_LEAST = ("unsupported_value", "min_tokens")
REFUSED = [
    (BASE | {"model": "gpt-9"}, 404, "model_not_found", "model"),
    (BASE | {"prompt": None}, 400, "wrong_type", "prompt"),
    (BASE | {"prompt": ""}, 400, "empty_prompt", None),
    (BASE | {"prompt": ["a", "b"]}, 400, "wrong_type", "prompt"),
    (BASE | {"prompt": [256]}, 400, "id_outside_vocabulary", "prompt"),
    (BASE | {"prompt": "a" * 60}, 400, "over_context", None),
    (BASE | {"max_tokens": 0}, 400, "invalid_value", "max_tokens"),
    (BASE | {"max_tokens": True}, 400, "invalid_value", "max_tokens"),
    (BASE | {"max_tokens": 1 << 70}, 400, "over_context", None),
    (BASE | {"temperature": 3}, 400, "invalid_value", "temperature"),
    (BASE | {"top_p": "1"}, 400, "invalid_value", "top_p"),
    (BASE | {"seed": 1 << 64}, 400, "invalid_value", "seed"),
    (BASE | {"stop": ""}, 400, "invalid_value", "stop"),
    (BASE | {"stop": ["a"] * 5}, 400, "invalid_value", "stop"),
    (BASE | {"stream": 1}, 400, "invalid_value", "stream"),
    (BASE | {"stream_options": 1}, 400, "invalid_value", "stream_options"),
    (BASE | {"return_token_ids": 1}, 400, *REFUSED_IDS),
    (BASE | {"min_tokens": 1}, 400, *REFUSED_LEAST),
    (BASE | LEAST | {"stop": "a"}, 400, *REFUSED_LEAST),
    (BASE | LEAST | {"min_tokens": 17}, 400, "invalid_value", "min_tokens"),
    (BASE | LEAST | {"min_tokens": "1"}, 400, "invalid_value", "min_tokens"),
    (BASE | {"n": 2}, 400, "unsupported_value", "n"),
    (BASE | {"logprobs": 5}, 400, "unsupported_value", "logprobs"),
    (BASE | {"messages": []}, 400, "unknown_field", "messages"),
    (CHAT | {"messages": []}, 400, "invalid_value", "messages"),
    (CHAT | {"messages": [1]}, 400, "invalid_value", "messages[0]"),
    (CHAT | {"tools": [{}]}, 400, "unsupported_value", "tools"),
    (
        CHAT | {"messages": [{"role": "tool", "content": "a"}]},
        *(400, "invalid_value", "messages[0].role"),
    ),
    (
        CHAT | {"messages": [{"role": "user", "content": "\ud800"}]},
        *(400, "lone_surrogate", "messages[0].content"),
    ),
    (
        CHAT | {"messages": [{"role": "user", "content": [{"type": "x"}]}]},
        *(400, "invalid_value", "messages[0].content"),
    ),
]


@pytest.mark.parametrize(("body", "status", "code", "param"), REFUSED)
def test_a_refusal_has_openais_form(
    url: str, body: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    path = "chat/completions" if "messages" in body else "completions"
    if "prompt" in body:
        path = "completions"
    answer = requests.post(f"{url}/v1/{path}", json=body, timeout=TIMEOUT_S)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert error["message"].endswith(".")
    assert len(answer.content) < 500


def test_other_refusals_under_the_prefix_have_it_too(url: str) -> None:
    def error(method: str, path: str, **options: Any) -> Any:
        answer = requests.request(
            method, url + path, timeout=TIMEOUT_S, **options
        )
        return SimpleNamespace(**answer.json()["error"])

    assert error("GET", "/v1/nothing").type == "invalid_request_error"
    assert error("GET", "/v1/completions").code == "method_not_allowed"
    assert error("POST", "/v1/completions", data="{").param is None
    raw = error("POST", "/v1/completions", json=[1])
    assert (raw.code, raw.type) == ("not_an_object", "invalid_request_error")


def test_the_client_raises_its_own_errors(
    client: openai.OpenAI, backend: Any
) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="gpt-9", prompt="a")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.InternalServerError):
        client.completions.create(model="scripted", prompt="boom")
    with pytest.raises(openai.InternalServerError):
        client.completions.create(model="scripted", prompt="boom", stream=True)


def test_a_failure_after_the_first_token_is_an_error_event(
    backend: Any, start_server: Callable[[SingleSlotEngine], str]
) -> None:
    def breaks(request: Any) -> Iterator[int]:
        yield 98
        raise ZeroDivisionError("a secret of the server")

    backend.steps = breaks
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    answer = requests.post(
        start_server(engine) + "/v1/completions",
        json=BASE | {"stream": True},
        timeout=TIMEOUT_S,
    )
    *_, last = answer.text.strip().split("\n\n")
    error = json.loads(last.removeprefix("data: "))["error"]
    assert (error["code"], error["type"]) == (
        "generation_failed",
        "server_error",
    )
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        (b"Content-Length: 9999999", 413, "body_too_large"),
        (b"Transfer-Encoding: gzip", 501, "unsupported_transfer_encoding"),
        (b"Content-Length: 5", 400, "incomplete_request"),
    ],
)
def test_so_has_what_the_connection_refuses(
    raw: Callable[[bytes], bytes],
    split_replies: Callable[[bytes], list[Any]],
    header: bytes,
    status: int,
    code: str,
) -> None:
    sent = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + header
    (reply,) = split_replies(raw(sent + b"\r\n\r\n"))
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (status, code)
    assert error["param"] is None
    assert error["type"].endswith("_error")


def test_another_path_is_told_what_there_is(url: str) -> None:
    for path, told in (("/v1/x", "/v1/models"), ("/x", "POST /generate")):
        answer = requests.get(url + path, timeout=TIMEOUT_S)
        assert told in answer.json()["error"]["message"]
