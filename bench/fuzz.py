"""Does the server do what its own OpenAPI description says, whatever comes?

    python bench/fuzz.py            # run, print, keep the result
    python bench/fuzz.py --show     # the kept result as Markdown

Schemathesis makes requests from the description, right ones and wrong ones,
and holds every answer to it. The server is the real one; its model is a
script, for it is HTTP and the checking of requests that is tried here. It
asks for a key. `make test` installs what this needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import fuzz_report
import keeping
import psutil
import requests
from fuzz_report import Report, Standing, Tally

from labkit import documents, machine, results
from labkit.errors import LabError
from labkit.serving.access import Access
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.protocol import GenerateRequest
from labkit.serving.server import BackgroundServer

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "schemathesis.toml"
FILE = "fuzz.json"
KEY = "not a secret"
HEADERS = {"Authorization": f"Bearer {KEY}"}
MOST_EXAMPLES = 3500
SEED = 5
IDLE_S = 30.0
"""How long the server may take to finish what it was given."""
PACKAGES = ("schemathesis", "hypothesis", "flask", "waitress")


class ScriptedModel:
    """Bytes are tokens, and the answer counts on from the last one."""

    name = "scripted"
    context = 64
    vocabulary = 256
    end_ids = frozenset({4})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [1, *self.encode("".join(each["content"] for each in messages))]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        for k in range(request.max_new_tokens):
            token = (request.prompt_ids[-1] + 1 + k) % 256
            yield token
            if request.stop_at_end and token in self.end_ids:
                return


@contextmanager
def serving() -> Iterator[tuple[str, Callable[[], Standing]]]:
    """The address of a server in this process, and how it stands."""
    engine = SingleSlotEngine(ScriptedModel)
    engine.wait_until_ready()
    process = psutil.Process()

    def look() -> Standing:
        load, threads = engine.load, process.num_threads()
        return Standing(threads, files(process), load.running, load.waiting)

    with BackgroundServer(create_app(engine, access=Access(KEY))) as server:
        yield server.url, look
    engine.close()


def files(process: psutil.Process) -> int:
    """How many files and sockets it has open; handles on Windows."""
    if sys.platform == "win32":
        return process.num_handles()
    return process.num_fds()


def works(url: str) -> bool:
    """Whether the server answers a request, and rightly."""
    answer = requests.post(
        f"{url}/generate",
        json={"prompt": "a", "max_new_tokens": 2},
        headers=HEADERS,
        timeout=IDLE_S,
    )
    return answer.status_code == 200 and answer.json()["text"] == "bc"


def schemathesis(url: str, folder: Path, examples: int, seed: int) -> None:
    """Run it; its reports are in `folder`. LabError when there are none."""
    described = requests.get(
        f"{url}/openapi.json", headers=HEADERS, timeout=IDLE_S
    )
    document = folder / "openapi.json"
    document.write_bytes(described.content)
    subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", str(CONFIG), "run", str(document)),
            *("--url", url, "--header", f"Authorization: Bearer {KEY}"),
            *("--max-examples", str(examples), "--seed", str(seed)),
            *("--generation-database", "none"),
            *("--report-json-path", str(folder / "report.json")),
            *("--report-ndjson-path", str(folder / "events.ndjson")),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE), "NO_PROXY": "*"},
        check=False,
    )
    if not (folder / "report.json").is_file():
        raise LabError("Schemathesis gave no report; it says above why.")


def tally(events: Path) -> Tally:
    """Count all that was recorded, a line at a time."""
    counted = Tally()
    with events.open(encoding="utf-8") as lines:
        for line in lines:
            finished = json.loads(line).get("ScenarioFinished")
            if finished is not None:
                counted.add(finished["recorder"])
    return counted


def failures(report: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence for each kind of failure or error in its report."""
    found = [
        f"{each['title']} ({', '.join(each['operations'])})"
        for each in report["failures"]
    ]
    if not report["complete"] or report["errors"]:
        found.append("the run was not whole")
    return tuple(found)


def when_idle(look: Callable[[], Standing], before: Standing) -> Standing:
    """How the server stands once all is closed, or after IDLE_S."""
    deadline = time.monotonic() + IDLE_S
    while (now := look()).files > before.files or now.running:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return now


def fuzz(examples: int = MOST_EXAMPLES, seed: int = SEED) -> Report:
    """Run it all."""
    started = results.timestamp(datetime.now(UTC))
    with serving() as (url, look), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not works(url):
            raise LabError("The server does not work; run its tests first.")
        before = look()
        schemathesis(url, folder, examples, seed)
        report = documents.read(folder / "report.json")
        counted = tally(folder / "events.ndjson")
        after = when_idle(look, before)
        return Report(
            started_utc=started,
            machine=machine.identify(),
            software=software(),
            most_examples=examples,
            seed=seed,
            seconds=report["running_time"],
            checks=dict(sorted(counted.checks.items())),
            operations=counted.operations(),
            failures=failures(report),
            before=before,
            after=after,
            served_after=works(url),
        )


def software() -> dict[str, str]:
    """Versions that matter here."""
    python = machine.software()["python"]
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"python": python, **found}


def main() -> None:
    """Run, or show what was found; status 1 when something does not hold."""
    report = keeping.run_or_show(__doc__, FILE, fuzz_report, fuzz)
    keeping.require(fuzz_report, report)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(str(error))
