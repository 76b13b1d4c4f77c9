"""The server's description of itself, held to the code and to the server."""

from __future__ import annotations

import ast
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis

from labkit.serving import openapi
from labkit.serving.access import Access
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.interface import Failed, Load
from labkit.serving.protocol import Limits, Refusal
from labkit.serving.server import BackgroundServer

ROOT = Path(openapi.__file__).parents[2]
SERVING = Path(openapi.__file__).parent
CONFIG = ROOT / "bench" / "schemathesis.toml"
KEY = "open sesame"
TIMEOUT_S = 10
METHODS = {"get", "post"}
Operation = tuple[str, str]
OPERATIONS = [(each.method, each.path) for each in openapi.OPERATIONS]


def describe(*, has_key: bool = False) -> dict[str, Any]:
    limits = Limits().within(64, 256)
    return openapi.describe(limits, "scripted", has_key=has_key)


# Held to OpenAPI ------------------------------------------------------------


@pytest.mark.parametrize("has_key", [False, True])
def test_it_is_openapi(has_key: bool) -> None:
    schemathesis.openapi.from_dict(describe(has_key=has_key)).validate()


@pytest.mark.parametrize("name", ["info", "openapi"])
def test_something_less_is_not(name: str) -> None:
    described = describe()
    del described[name]
    with pytest.raises(
        (jsonschema_rs.ValidationError, schemathesis.errors.LoaderError)
    ):
        schemathesis.openapi.from_dict(described).validate()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_its_references_lead_somewhere_and_each_schema_is_used() -> None:
    described = describe()
    named = {f"#/components/schemas/{n}" for n in schemas(described)}
    assert set(references(described)) == named


def test_its_schemas_are_schemas() -> None:
    for schema in schemas(describe()).values():
        jsonschema_rs.meta.validate(schema)


def schemas(described: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = described["components"]["schemas"]
    return found


def test_the_limits_are_in_it() -> None:
    by_ids = schemas(describe())["GenerateByIds"]["properties"]
    assert by_ids["max_new_tokens"]["maximum"] == 63
    assert by_ids["prompt_ids"]["maxItems"] == 63
    assert by_ids["prompt_ids"]["items"]["maximum"] == 255


# Held to the code -----------------------------------------------------------


class Stub:
    """An engine whose every request fails with `refusal`, or its model."""

    name, context, vocabulary = "scripted", 64, 256
    load = Load(0, 0)

    def __init__(self, refusal: Refusal, *, loaded: bool = True) -> None:
        self.refusal = refusal
        self.loaded = loaded

    def backend(self) -> Stub:
        if not self.loaded:
            raise self.refusal
        return self

    def submit(self, request: object) -> Stub:
        return self

    def __iter__(self) -> Iterator[Failed]:
        yield Failed(0, self.refusal)

    def watch(self, observer: object) -> None: ...

    def cancel(self) -> None: ...

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Any) -> list[int]:
        return self.encode("a")

    def decode(self, ids: Any) -> str:
        return bytes(ids).decode("utf-8", "replace")


def app_of(engine: Any, key: str | None = None) -> Any:
    return create_app(engine, access=Access(key))


NO_MODEL = Refusal(503, "not_ready", "Wait.", retry_after_s=1)


def test_every_route_is_in_it() -> None:
    rules = app_of(Stub(NO_MODEL)).url_map.iter_rules()
    routes = {
        (method.lower(), rule.rule)
        for rule in rules
        for method in rule.methods or ()
        if method != "HEAD"  # comes with GET, by HTTP
    }
    paths = describe()["paths"]
    assert routes == {(m, path) for path in paths for m in paths[path]}
    assert len(routes) == 9


def refusals_in_the_code() -> set[tuple[int | None, str]]:
    """Status and code of each; None where the code computes the status."""
    calls = [
        node
        for path in SERVING.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    found: set[tuple[int | None, str]] = set()
    for call in calls:
        if name_of(call) == "_bad":  # short for Refusal(400, ...)
            found.add((400, literal(call.args[0])))
        elif name_of(call) == "Refusal" and name_of(call.args[1]) != "code":
            status = getattr(call.args[0], "value", None)
            found.add((status, literal(call.args[1])))
    return found


def name_of(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def literal(code: ast.expr) -> str:
    assert isinstance(code, ast.Constant), ast.unparse(code)
    assert isinstance(code.value, str)
    return code.value


def declared() -> set[tuple[int, str]]:
    """Status and code of each refusal that the description has."""
    described = describe(has_key=True)
    responses = [
        (int(status), response)
        for item in described["paths"].values()
        for operation in item.values()
        for status, response in operation["responses"].items()
        if status != "200"
    ]
    elsewhere = described["components"]["responses"]
    responses += [
        (404, elsewhere["NotFound"]),
        (405, elsewhere["MethodNotAllowed"]),
    ]
    return {
        (status, code)
        for status, response in responses
        for code in codes_of(response["content"]["application/json"])
    }


def codes_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value.get("code", {}).get("enum", ())
        for each in value.values():
            yield from codes_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from codes_of(each)


def test_every_refusal_in_the_code_is_in_it_and_no_other() -> None:
    written = refusals_in_the_code()
    there = declared()
    assert {code for _, code in written} == {code for _, code in there}
    assert {pair for pair in written if pair[0] is not None} <= there
    assert len(written) > 30


# Held to single answers -----------------------------------------------------


BODIES: dict[str, dict[str, Any]] = {
    "/generate": {"prompt": "a", "max_new_tokens": 1},
    "/stream": {"prompt": "a", "max_new_tokens": 1},
    "/v1/completions": {"prompt": "a"},
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "a"}],
    },
}


def check_answer(
    operation: Operation, status: int, kind: str, body: bytes
) -> None:
    """The description has this status, of this media type, with this body."""
    method, path = operation
    described = describe(has_key=True)
    responses = described["paths"][path][method]["responses"]
    assert str(status) in responses, (operation, body)
    media_type = kind.partition(";")[0]
    schema = responses[str(status)]["content"][media_type]["schema"]
    whole = {**schema, "components": described["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(json.loads(body))


FAILURES = [
    Refusal(429, "queue_full", "Wait.", retry_after_s=1),
    Refusal(499, "cancelled", "Gone."),
    Refusal(500, "generation_failed", "Sorry."),
    Refusal(503, "shutting_down", "Over."),
    Refusal(504, "deadline_exceeded", "Late."),
]


@pytest.mark.parametrize("refusal", FAILURES, ids=lambda each: each.code)
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_what_fails_in_the_engine(
    path: str, stream: bool, refusal: Refusal
) -> None:
    body = BODIES[path] | ({"stream": stream} if "/v1/" in path else {})
    answer = app_of(Stub(refusal)).test_client().post(path, json=body)
    assert answer.status_code == refusal.status
    check_answer(
        ("post", path), answer.status_code, answer.content_type, answer.data
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_model(operation: Operation) -> None:
    method, path = operation
    client = app_of(Stub(NO_MODEL, loaded=False)).test_client()
    answer = client.open(path, method=method.upper(), json=BODIES.get(path))
    if path in {"/", "/metrics"}:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 503
        check_answer(operation, 503, answer.content_type, answer.data)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_the_key(operation: Operation) -> None:
    method, path = operation
    answer = (
        app_of(Stub(NO_MODEL), KEY)
        .test_client()
        .open(path, method=method.upper(), json=BODIES.get(path))
    )
    described = describe(has_key=True)["paths"][path][method]
    assert ("security" in described) == (answer.status_code == 401)
    assert ("401" in described["responses"]) == ("security" in described)
    if answer.status_code == 401:
        check_answer(operation, 401, answer.content_type, answer.data)


HOST = "Host: localhost\r\n"
WIRE = [
    (400, HOST + "no colon\r\n\r\n"),
    (400, HOST + "Content-Length: 5\r\n\r\nab"),
    (400, HOST + "X: cut off"),
    (400, HOST + "Transfer-Encoding: chunked\r\n\r\nno size\r\n"),
    (403, "Host: elsewhere.example\r\n\r\n"),
    (403, HOST + "Origin: http://elsewhere.example\r\n\r\n"),
    (413, HOST + "Content-Length: 9999999\r\n\r\n"),
    (431, HOST + "X: " + "x" * 40_000 + "\r\n\r\n"),
    (501, HOST + "Transfer-Encoding: gzip\r\n\r\n"),
]


@pytest.mark.parametrize(("status", "rest"), WIRE)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_fails_on_the_wire(
    operation: Operation,
    status: int,
    rest: str,
    raw: Callable[[bytes], bytes],
    split_replies: Callable[[bytes], list[Any]],
) -> None:
    method, path = operation
    sent = f"{method.upper()} {path} HTTP/1.1\r\n{rest}".encode()
    (reply,) = split_replies(raw(sent))
    assert reply.status == status
    kind = reply.headers["Content-Type"]
    check_answer(operation, status, kind, reply.body)


def test_other_paths_and_methods(url: str) -> None:
    elsewhere = describe()["components"]["responses"]
    for method, path, name in [
        ("GET", "/nothing", "NotFound"),
        ("PUT", "/", "MethodNotAllowed"),
    ]:
        answer = requests.request(method, url + path, timeout=TIMEOUT_S)
        schema = elsewhere[name]["content"]["application/json"]["schema"]
        whole = {**schema, "components": describe()["components"]}
        jsonschema_rs.Draft202012Validator(whole).validate(answer.json())
        headers = elsewhere[name].get("headers", {})
        assert set(headers) <= set(answer.headers)


def test_it_is_served(url: str) -> None:
    answer = requests.get(url + "/openapi.json", timeout=TIMEOUT_S)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == json.loads(json.dumps(describe()))


ONCE_ACCEPTED = [
    ({"n": True}, "unsupported_value", "n"),
    ({"echo": 0}, "unsupported_value", "echo"),
    ({"top_k": False}, "unsupported_value", "top_k"),
    ({"stream_options": 0}, "invalid_value", "stream_options"),
    ({"stream_options": []}, "invalid_value", "stream_options"),
    (
        {"max_completion_tokens": 1, "max_tokens": "1"},
        *("invalid_value", "max_tokens"),
    ),
]


@pytest.mark.parametrize(("fields", "code", "param"), ONCE_ACCEPTED)
def test_what_the_fuzzing_found_is_refused(
    url: str, fields: dict[str, Any], code: str, param: str
) -> None:
    path = "/v1/chat/completions"
    answer = requests.post(
        url + path, json=BODIES[path] | fields, timeout=TIMEOUT_S
    )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)


# Held to a thousand answers -------------------------------------------------


@pytest.fixture
def locked(backend: Any) -> Iterator[str]:
    """A server that asks for a key, around a model that answers anything."""

    def encode_chat(messages: Any) -> list[int]:
        return [1, *backend.encode("".join(m["content"] for m in messages))]

    backend.encode_chat = encode_chat
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    with BackgroundServer(create_app(engine, access=Access(KEY))) as server:
        yield server.url
    assert engine.close()
    assert (backend.open, backend.overlaps) == (0, 0)


def try_out(
    described: dict[str, Any], url: str, folder: Path, examples: int
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run schemathesis; what it printed, and its report."""
    document, report = folder / "openapi.json", folder / "report.json"
    document.write_text(json.dumps(described), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", str(CONFIG), "run", str(document)),
            *("--url", url, "--header", f"Authorization: Bearer {KEY}"),
            *("--max-examples", str(examples), "--generation-deterministic"),
            *("--no-color", "--report-json-path", str(report)),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CONFIG.parent)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert report.is_file(), done.stdout + done.stderr
    return done, json.loads(report.read_text(encoding="utf-8"))


def test_the_server_does_as_it_says(locked: str, tmp_path: Path) -> None:
    done, report = try_out(describe(has_key=True), locked, tmp_path, 25)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["failures"] == report["errors"] == []
    assert report["operations"]["tested"] == len(OPERATIONS)
    assert report["test_cases"]["generated"] > 900
    for operation in BODIES:
        accepted = report["valid_rates"][f"POST {operation}"]
        assert accepted["fuzzing"]["accepted"] > 5
    health = requests.get(locked + "/health", timeout=TIMEOUT_S)
    assert health.status_code == 200


def test_faults_of_a_description_are_found(
    locked: str, tmp_path: Path
) -> None:
    described = copy.deepcopy(describe(has_key=True))
    paths, named = described["paths"], schemas(described)
    del paths["/v1/models"]["get"]["responses"]["200"]
    metrics = paths["/metrics"]["get"]["responses"]["200"]
    metrics["content"] = {"text/csv": {"schema": {"type": "string"}}}
    named["Health"]["properties"]["context"] = {"type": "string"}
    paths["/"]["get"]["security"] = [{"key": []}]
    named["GenerateByText"]["properties"]["prompt"]["minLength"] = 0
    named["GenerateByIds"]["properties"]["prompt_ids"]["maxItems"] = 2
    named["CompletionChunk"]["properties"]["created"] = {"type": "string"}
    del paths["/v1/chat/completions"]  # takes as long as all the others
    done, report = try_out(described, locked, tmp_path, 10)
    assert done.returncode == 1
    found = {
        (failure["title"], operation)
        for failure in report["failures"]
        for operation in failure["operations"]
    }
    planted = {
        ("Undocumented status code", "GET /v1/models"),
        ("Undocumented Content-Type", "GET /metrics"),
        ("Response violates schema", "GET /health"),
        ("API accepts requests without authentication", "GET /"),
        ("Missing required header accepted", "GET /"),
        ("Valid data refused", "POST /generate"),
        ("Valid data refused", "POST /stream"),
        ("Schema-violating request accepted", "POST /generate"),
        ("Schema-violating request accepted", "POST /stream"),
        ("SSE event violates schema", "POST /v1/completions"),
    }
    assert found == planted
