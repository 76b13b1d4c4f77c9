"""Run a load tool against a server, and keep what the two said.

    python bench/record_session.py http://127.0.0.1:8001 out.json \
        --tool "guidellm 0.8.1" --set tokenizer=FOLDER -- \
        guidellm run --backend kind=openai_http,target={url} ...

Between the two stands a proxy on a free port, `{url}` in the command. Of
each kind of request the file keeps the first few whole, with the shape of
what was answered, and counts the others; tests/serving replays it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

KEPT_OF_A_KIND = 2
TIMEOUT_S = 120
HEADERS = ("accept", "accept-encoding", "content-type", "transfer-encoding")
"""What may change an answer; the others can tell of a person or machine."""
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
)


def fields(document: Any, path: str = "") -> list[str]:
    """Paths of all values in a JSON document that are not null, sorted.

    An array counts as `[]`, so that two items with the same fields are one.
    """
    if isinstance(document, dict) and document:
        inner = [
            each
            for name, value in document.items()
            for each in fields(value, f"{path}.{name}" if path else name)
        ]
    elif isinstance(document, list) and document:
        inner = [
            each for item in document for each in fields(item, f"{path}[]")
        ]
    else:
        inner = [] if document is None else [path]
    return sorted(set(inner))


def data_of(stream: bytes) -> list[str]:
    """What the `data:` lines of server-sent events hold, in order.

    For events of one line, as OpenAI's are.
    """
    lines = stream.decode("utf-8").splitlines()
    return [
        line.removeprefix("data:").strip()
        for line in lines
        if line.startswith("data:")
    ]


def shape_of_stream(stream: bytes) -> dict[str, Any]:
    """Runs of events with the same fields, the text, reason and usage."""
    data = data_of(stream)
    events = [json.loads(each) for each in data if each != "[DONE]"]
    choices = [c for event in events for c in event.get("choices", [])]
    texts = [
        c.get("text") or c.get("delta", {}).get("content") for c in choices
    ]
    reasons = [c["finish_reason"] for c in choices if c.get("finish_reason")]
    usages = [event["usage"] for event in events if event.get("usage")]
    runs = [(key, len(list(run))) for key, run in groupby(events, fields)]
    return {
        "events": [{"fields": key, "times": times} for key, times in runs],
        "text": "".join(text for text in texts if text),
        "finish_reasons": reasons,
        "usage": usages[-1] if usages else None,
        "done": data[-1:] == ["[DONE]"],
    }


def shape_of_answer(
    status: int, content_type: str, body: bytes
) -> dict[str, Any]:
    """An answer as it is kept."""
    shape: dict[str, Any] = {"status": status, "content_type": content_type}
    if content_type.startswith("text/event-stream"):
        return shape | {"stream": shape_of_stream(body)}
    try:
        return shape | {"body": json.loads(body)}
    except ValueError:
        return shape | {"bytes": len(body)}


def kind_of_request(request: Mapping[str, Any]) -> str:
    """Requests of one kind have the same route, fields and roles."""
    body = request["body"]
    if not isinstance(body, dict):
        return f"{request['method']} {request['path']}"
    roles = [each.get("role") for each in body.get("messages", ())]
    rest = {
        name: value
        for name, value in body.items()
        if name not in {"prompt", "messages"}
    }
    said = json.dumps([sorted(body), rest, roles])
    return f"{request['method']} {request['path']} {said}"


@dataclass
class Recording:
    """What is kept of a session; used by several threads."""

    exchanges: list[dict[str, Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        """Keep an exchange, or count it with those of its kind."""
        kind = kind_of_request(request)
        with self._lock:
            same = [e for e in self.exchanges if e["kind"] == kind]
            if len(same) < KEPT_OF_A_KIND:
                entry = {"kind": kind, "request": request, "answer": answer}
                self.exchanges.append(entry | {"times": 1})
            else:
                same[-1]["times"] += 1

    def document(self) -> list[dict[str, Any]]:
        """The exchanges in order; `times` counts the like ones after it."""
        with self._lock:
            return [
                {name: e[name] for name in ("times", "request", "answer")}
                for e in self.exchanges
            ]


def _kept_headers(headers: Message) -> dict[str, str]:
    lower = {name.lower(): value for name, value in headers.items()}
    kept = {name: lower[name] for name in HEADERS if name in lower}
    if "authorization" in lower:
        kept["authorization"] = lower["authorization"].split()[0] + " KEY"
    return kept


def handler(target: str, recording: Recording) -> type[BaseHTTPRequestHandler]:
    """A handler that passes requests on to `target` and keeps them."""
    place = urlsplit(target)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or small events wait 40 ms

        def handle(self) -> None:
            """Serve one connection, until the tool drops it."""
            with suppress(ConnectionError):
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the tool's own output is what counts."""

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(length)
            upstream = HTTPConnection(
                str(place.hostname), place.port, timeout=TIMEOUT_S
            )
            try:
                upstream.request(
                    self.command, self.path, sent or None, self._passed()
                )
                self._answer(sent, upstream.getresponse())
            finally:
                upstream.close()

        def _passed(self) -> dict[str, str]:
            return {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in HOP_BY_HOP
            }

        def _answer(self, sent: bytes, response: HTTPResponse) -> None:
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in HOP_BY_HOP | {"server", "date"}:
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            received = bytearray()
            while piece := response.read1(65536):
                received += piece
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            self._keep(sent, response, bytes(received))

        def _keep(
            self, sent: bytes, response: HTTPResponse, received: bytes
        ) -> None:
            request = {
                "method": self.command,
                "path": self.path,
                "headers": _kept_headers(self.headers),
                "body": json.loads(sent) if sent else None,
            }
            content_type = response.getheader("Content-Type", "")
            recording.add(
                request,
                shape_of_answer(response.status, content_type, received),
            )

    return Proxy


@contextmanager
def proxy(target: str, recording: Recording) -> Iterator[str]:
    """A proxy before `target`; gives its URL."""
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), handler(target, recording)
    ) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The command with each `{name}` replaced by its value."""
    done = list(command)
    for name, value in values.items():
        done = [word.replace(f"{{{name}}}", value) for word in done]
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Record one run of a tool; its exit status is ours."""
    asked = _parser().parse_args(arguments)
    values = dict(each.split("=", 1) for each in asked.set)
    recording = Recording()
    with proxy(asked.target, recording) as url:
        command = filled(asked.command, values | {"url": url})
        status = subprocess.run(command, check=False).returncode
    run = {
        "command": " ".join(asked.command),
        "date": datetime.now(UTC).date().isoformat(),
        "exit_status": status,
        "exchanges": recording.document(),
    }
    session: dict[str, Any] = {"tool": asked.tool, "runs": []}
    if asked.append:
        session = json.loads(asked.out.read_text(encoding="utf-8"))
    session["runs"].append(run)
    text = json.dumps(session, indent=1, ensure_ascii=False) + "\n"
    asked.out.write_text(text, encoding="utf-8")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Record a load tool.")
    parser.add_argument("target", help="the server, as http://host:port")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--tool", required=True, help="name and version")
    parser.add_argument("--append", action="store_true", help="add a run")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("command", nargs="+", help="after --")
    return parser


if __name__ == "__main__":
    sys.exit(main())
