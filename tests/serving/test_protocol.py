"""Every rule about a request body, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labkit.serving.protocol import (
    MAX_INTEGER_DIGITS,
    GenerateRequest,
    Limits,
    Refusal,
    parse_generate,
    parse_json,
    to_json,
)

LIMITS = Limits(context=16, vocabulary=256)


def encode(text: str) -> list[int]:
    return list(text.encode())


def refusal_of_json(raw: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        parse_json(raw)
    return caught.value


def refusal_of_request(body: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        parse_generate(body, encode, LIMITS)
    return caught.value


def test_json_that_is_an_object_is_returned() -> None:
    raw = '{"a": [1, -2, 3.5, true, null], "ключ": {"b": "é"}}'.encode()
    assert parse_json(raw) == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "empty_body"),
        (b" \n", "empty_body"),
        (b"\xff{}", "invalid_utf8"),
        (b'{"prompt": "\xed\xa0\x80"}', "invalid_utf8"),
        ("{}".encode("utf-16"), "invalid_utf8"),
        ("\ufeff{}".encode(), "invalid_json"),
        (b"hello", "invalid_json"),
        (b"{'a': 1}", "invalid_json"),
        (b'{"a": 1,}', "invalid_json"),
        (b'{"a": 1} {}', "invalid_json"),
        (b'{"a": 01}', "invalid_json"),
        (b'{"a": "\x01"}', "invalid_json"),
        (b'{"a": NaN}', "not_finite"),
        (b'{"a": Infinity}', "not_finite"),
        (b'{"a": [-Infinity]}', "not_finite"),
        (b'{"a": 1, "a": 1}', "duplicate_key"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate_key"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number_too_long"),
        (b'{"a": -' + b"9" * 101 + b"}", "number_too_long"),
        (
            b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "nested_too_deep",
        ),
        (b'{"a":' * 100_000, "nested_too_deep"),
        (b"[]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"12", "not_an_object"),
        (b"true", "not_an_object"),
        (b"null", "not_an_object"),
    ],
)
def test_json_is_refused(raw: bytes, code: str) -> None:
    refusal = refusal_of_json(raw)
    assert (refusal.status, refusal.code) == (400, code)


def test_a_request_with_text_is_encoded() -> None:
    request = parse_generate(
        {"prompt": "hé\0<|im_end|>"[:4], "max_new_tokens": 3}, encode, LIMITS
    )
    assert request == GenerateRequest((104, 195, 169, 0, 60), 3)


def test_a_request_with_ids_is_not_encoded() -> None:
    def fail(text: str) -> list[int]:
        raise AssertionError

    request = parse_generate(
        {"prompt_ids": [0, 255], "max_new_tokens": 1}, fail, LIMITS
    )
    assert request == GenerateRequest((0, 255), 1)


def test_prompt_and_output_may_fill_the_context() -> None:
    request = parse_generate(
        {"prompt": "x" * 10, "max_new_tokens": 6}, encode, LIMITS
    )
    assert len(request.prompt_ids) + request.max_new_tokens == LIMITS.context


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_max_new_tokens"),
        ({"prompt": "a"}, "missing_max_new_tokens"),
        ({"max_new_tokens": 1}, "missing_prompt"),
        (
            {"prompt": "a", "prompt_ids": [1], "max_new_tokens": 1},
            "two_prompts",
        ),
        ({"prompt": "a", "max_new_tokens": 1, "top_p": 1}, "unknown_field"),
        ({"prompt": "", "max_new_tokens": 1}, "empty_prompt"),
        ({"prompt_ids": [], "max_new_tokens": 1}, "empty_prompt"),
        ({"prompt": None, "max_new_tokens": 1}, "wrong_type"),
        ({"prompt": 5, "max_new_tokens": 1}, "wrong_type"),
        ({"prompt": ["a"], "max_new_tokens": 1}, "wrong_type"),
        ({"prompt": {"a": 1}, "max_new_tokens": 1}, "wrong_type"),
        ({"prompt": "\ud800", "max_new_tokens": 1}, "lone_surrogate"),
        ({"prompt": "a\udc00b", "max_new_tokens": 1}, "lone_surrogate"),
        ({"prompt": "a", "max_new_tokens": 0}, "too_few_tokens"),
        ({"prompt": "a", "max_new_tokens": -1}, "too_few_tokens"),
        ({"prompt": "a", "max_new_tokens": -(10**99)}, "too_few_tokens"),
        ({"prompt": "a", "max_new_tokens": 16}, "over_context"),
        ({"prompt": "a", "max_new_tokens": 10**99}, "over_context"),
        ({"prompt": "a", "max_new_tokens": 1.5}, "wrong_type"),
        ({"prompt": "a", "max_new_tokens": 1.0}, "wrong_type"),
        ({"prompt": "a", "max_new_tokens": float("inf")}, "wrong_type"),
        ({"prompt": "a", "max_new_tokens": True}, "wrong_type"),
        ({"prompt": "a", "max_new_tokens": "1"}, "wrong_type"),
        ({"prompt": "a", "max_new_tokens": None}, "wrong_type"),
        ({"prompt": "x" * 11, "max_new_tokens": 6}, "over_context"),
        ({"prompt_ids": [1] * 11, "max_new_tokens": 6}, "over_context"),
        ({"prompt_ids": "12", "max_new_tokens": 1}, "wrong_type"),
        ({"prompt_ids": 12, "max_new_tokens": 1}, "wrong_type"),
        ({"prompt_ids": [1, True], "max_new_tokens": 1}, "wrong_type"),
        ({"prompt_ids": [1, 2.0], "max_new_tokens": 1}, "wrong_type"),
        ({"prompt_ids": [1, "2"], "max_new_tokens": 1}, "wrong_type"),
        ({"prompt_ids": [[1]], "max_new_tokens": 1}, "wrong_type"),
        ({"prompt_ids": [256], "max_new_tokens": 1}, "id_outside_vocabulary"),
        ({"prompt_ids": [-1], "max_new_tokens": 1}, "id_outside_vocabulary"),
        (
            {"prompt_ids": [10**99], "max_new_tokens": 1},
            "id_outside_vocabulary",
        ),
    ],
)
def test_a_request_is_refused(body: dict[str, Any], code: str) -> None:
    refusal = refusal_of_request(body)
    assert (refusal.status, refusal.code) == (400, code)
    assert refusal.message.endswith(".")
    assert len(refusal.message) < 300


def test_a_tokenizer_that_finds_nothing_makes_an_empty_prompt() -> None:
    with pytest.raises(Refusal) as caught:
        parse_generate(
            {"prompt": "a", "max_new_tokens": 1}, lambda text: [], LIMITS
        )
    assert caught.value.code == "empty_prompt"


def test_a_long_input_is_not_repeated() -> None:
    name = "n" * 100_000
    for refusal in (
        refusal_of_request({name: 1}),
        refusal_of_json(json.dumps({"a": 1})[:-1].encode() + b', "a": 2}'),
        refusal_of_json(f'{{"{name}": 1, "{name}": 2}}'.encode()),
    ):
        assert len(refusal.message) < 200


def test_a_refusal_is_one_json_object_in_ascii() -> None:
    refusal = refusal_of_request({"\ud800é": 1})
    sent = to_json(refusal.body())
    assert sent.isascii()
    assert json.loads(sent)["error"]["code"] == "unknown_field"
    assert str(refusal) == refusal.message


def test_the_smaller_limit_wins() -> None:
    limits = Limits(max_body_bytes=5, context=9, vocabulary=7)
    assert limits.within(context=8, vocabulary=6) == Limits(5, 8, 6)
    assert limits.within(context=10, vocabulary=8) == limits


def test_the_whole_context_as_output_is_refused_before_encoding() -> None:
    def fail(text: str) -> list[int]:
        raise AssertionError("the prompt was encoded")

    body = {"prompt": "a", "max_new_tokens": 8}
    with pytest.raises(Refusal, match="max_new_tokens is 8"):
        parse_generate(body, fail, Limits(context=8))


def test_a_number_of_exactly_the_most_digits_is_read() -> None:
    digits = "7" * MAX_INTEGER_DIGITS
    raw = f'{{"max_new_tokens": {digits}}}'.encode()
    assert parse_json(raw) == {"max_new_tokens": int(digits)}
