"""The published matrix, and the command lines."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from labkit import __main__
from labkit.errors import LabError
from labkit.loadtest import (
    command,
    evidence,
    loops,
    matrix,
    report,
    verify,
    workload,
)
from labkit.loadtest.plan import Configuration
from labkit.loadtest.timelines import Step, TimeLine
from labkit.serving.access import Access
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.protocol import GenerateRequest
from labkit.serving.server import BackgroundServer

PUBLISHED = Path("data/published/llm_serving_bench.json")
TEXT = list(range(800))


def invoke(*words: str) -> Any:
    return CliRunner().invoke(__main__.app, list(words))


def test_the_plan_is_that_of_the_published_matrix() -> None:
    made = matrix.plan(TEXT, 1000)
    measured = [r for r in made.requests if r.phase == "measured"]
    assert len(measured) == 48
    assert sum(r.new_tokens for r in measured) == 1152
    per = Counter((r.configuration, r.phase) for r in made.requests)
    names = [each.name for each in made.configurations]
    assert per == {(name, "warmup"): 1 for name in names} | {
        (name, "measured"): 6 for name in names
    }
    published = json.loads(PUBLISHED.read_bytes())["runs"][0]["protocol"]
    assert sorted(names) == sorted(published["conditions"])
    assert names != published["conditions"]
    for request in made.requests:
        assert f" {len(request.prompt_ids)} in" in request.configuration


def test_the_order_follows_from_the_seed() -> None:
    orders = [
        [
            each.name
            for each in matrix.plan(TEXT, 1000, seed=seed).configurations
        ]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_the_subset_leaves_long_prompts_out() -> None:
    made = matrix.plan(TEXT, 1000, subset=True)
    assert len(made.configurations) == 4
    assert {len(r.prompt_ids) for r in made.requests} == {64}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, tools: Any) -> list[str]:
    """The matrix without a model; the threads that servers were asked for."""
    asked: list[str] = []
    alive: list[Configuration] = []

    @contextmanager
    def serve(
        configuration: Configuration, *, fast: bool
    ) -> Iterator[loops.Serving]:
        assert not alive, "two servers at once"
        alive.append(configuration)
        asked.append(f"{configuration.threads} {fast}")
        yield loops.Serving(tools.Client(), None, configuration.threads)
        alive.pop()

    monkeypatch.setattr(matrix, "_server", serve)
    monkeypatch.setattr(workload, "passage_ids", lambda: TEXT)
    monkeypatch.setattr(matrix, "vocabulary", lambda: 1000)
    return asked


def test_the_matrix_runs_with_one_server_at_a_time(
    tmp_path: Path, servers: list[str]
) -> None:
    folder = tmp_path / "matrix"
    done = invoke("matrix", "--out", str(folder), "--fast")
    assert done.exit_code == 0, done.output
    assert Counter(servers) == {"1 True": 4, "2 True": 4}
    assert verify.examine(folder)[0] == verify.COMPLETE
    made = json.loads((folder / evidence.REPORT).read_bytes())
    assert made["requests"] == 48
    total = [
        c["all"]["output_tokens"] for c in made["configurations"].values()
    ]
    assert sum(total) == 1152
    environment = json.loads((folder / evidence.ENVIRONMENT).read_bytes())
    assert environment["target"]["weights"] == "fused"
    assert len(environment["model"]["sha256"]) == 64
    assert "2 threads, 2 clients, 256 in" in done.output


def test_a_matrix_is_resumed(
    tmp_path: Path, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "matrix"
    serve = matrix._server

    def gone(asked: Configuration, *, fast: bool) -> Any:
        if len(servers) == 2:
            raise LabError("The server ended before it was ready.")
        return serve(asked, fast=fast)

    monkeypatch.setattr(matrix, "_server", gone)
    with pytest.raises(LabError, match="before it was ready"):
        matrix.run(folder, subset=True)
    assert verify.examine(folder)[0] == verify.PARTIAL
    assert len(evidence.load(folder).missing()) == 12
    monkeypatch.setattr(matrix, "_server", serve)
    done = invoke("matrix", "--out", str(folder), "--resume")
    assert done.exit_code == 0, done.output
    assert len(servers) == 4
    assert verify.examine(folder)[0] == verify.COMPLETE


def test_a_run_is_not_continued_on_another_machine(
    tmp_path: Path, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "matrix"
    made = matrix.plan(TEXT, 1000, subset=True)
    about = matrix.about(subset=True, fast=False)
    about["machine"]["cpu"] = "another"
    evidence.create(folder, made, about)
    done = invoke("matrix", "--out", str(folder), "--resume")
    assert isinstance(done.exception, LabError)
    assert r"begun elsewhere (another cpu)" in str(done.exception)
    assert not servers


class CountingOn:
    """A model of 256 tokens that counts on from the last one."""

    name = "counting"
    context = 64
    vocabulary = 256
    end_ids: frozenset[int] = frozenset()

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Sequence[Any]) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("latin-1")

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        for n in range(request.max_new_tokens):
            yield (request.prompt_ids[-1] + 1 + n) % 256


@pytest.fixture
def url() -> Iterator[str]:
    engine = SingleSlotEngine(CountingOn)
    engine.wait_until_ready(10)
    server = BackgroundServer(create_app(engine)).start()
    yield server.url
    server.stop()
    assert engine.close()


Options = tuple[str, ...]
SMALL = ("--requests", "6", "--input-tokens", "8", "--new-tokens", "4")
RANDOM = ("--prompts", "random", "--seed", "3")


@pytest.mark.parametrize(
    "load",
    [
        ("--clients", "2"),
        ("--rate", "200"),
        ("--rate", "200", "--arrivals", "poisson", "--most-in-flight", "2"),
        ("--clients", "1", "--keep-alive", "--warmups", "0"),
        ("--clients", "2", "--openai", "counting", "--vocabulary", "256"),
    ],
)
def test_a_real_server_is_measured(
    url: str, tmp_path: Path, load: Options
) -> None:
    """Ids and counts are those of the server, in both protocols."""
    folder, page = tmp_path / "run", tmp_path / "page.html"
    figures = tmp_path / "figures.csv"
    words = ("--page", str(page), "--csv", str(figures))
    objective = ("--objective", "ttft_ms=10000")
    done = invoke(
        *("loadtest", url, "--out", str(folder)),
        *(*SMALL, *RANDOM, *load, *words, *objective),
    )
    assert done.exit_code == 0, done.output
    assert verify.examine(folder)[0] == verify.COMPLETE
    found = evidence.load(folder)
    prompts = {r.request: r.prompt_ids for r in found.plan.requests}
    for run in found.runs:
        assert run.record.ok, run.record
        assert run.record.prompt_tokens == 8
        assert run.record.new_tokens == 4
        ids = [i for each in run.record.arrivals for i in each.ids]
        last = prompts[run.record.request][-1]
        wanted = [(last + 1 + n) % 256 for n in range(4)]
        assert ids == ([] if "--openai" in load else wanted)
    (made,) = report.figures(found)["configurations"].values()
    assert made["all"]["share_met"] == 1.0
    assert "TTFT" in done.output
    assert page.read_text(encoding="utf-8").count("<img") == 3
    assert figures.read_text(encoding="utf-8").startswith("configuration,")


def test_recorded_arrivals(url: str, tmp_path: Path) -> None:
    moments = tmp_path / "moments"
    moments.write_text("3\n3.01\n3.02\n", encoding="utf-8")
    folder = tmp_path / "run"
    words = ("--arrivals", str(moments), "--out", str(folder))
    done = invoke("loadtest", url, *SMALL, *RANDOM, *words)
    assert isinstance(done.exception, LabError)
    assert "3 arrivals were recorded, fewer than 6" in str(done.exception)
    done = invoke("loadtest", url, *SMALL[2:], *RANDOM, *words)
    assert done.exit_code == 0, done.output
    (made,) = report.figures(evidence.load(folder))["configurations"].values()
    assert made["asked_per_s"] == 100.0
    assert verify.examine(folder)[0] == verify.COMPLETE
    (records,) = evidence.load(folder).segments("recorded, 8 in, 4 out")
    due = [record.due_ns or 0 for record in records]
    assert [each - due[0] for each in due] == [0, 10_000_000, 20_000_000]


REFUSED: list[tuple[Options, str]] = [
    ((), "Give --clients N"),
    (("--clients", "1", "--rate", "2"), "not both"),
    (("--clients", "0"), "must be above 0"),
    (("--rate", "nan"), "must be above 0"),
    (("--clients", "1", "--requests", "0"), "at least one request"),
    (("--clients", "1", "--input-tokens", "61"), "more than the 64"),
    (("--clients", "1", "--input-tokens", "0"), "at least one token"),
    (("--clients", "1", "--prompts", "x"), "no prompts 'x'"),
    (("--clients", "1", "--objective", "x=1"), "no objective"),
    (("--clients", "1", "--objective", "ttft_ms=x"), "no objective"),
    (("--arrivals", "nowhere"), "no list of arrivals"),
    (("--arrivals", os.devnull), "no list of arrivals"),
    (("--rate", "1", "--arrivals", "nowhere"), "leave --rate out"),
    (("--arrivals", __file__), "no list of arrivals"),
    (("--clients", "1", "--arrivals", "poisson"), "for an open loop"),
    (("--clients", "1", "--most-in-flight", "2"), "for an open loop"),
    (
        ("--clients", "1", "--objective", "ttft_from_schedule_ms=5"),
        "has no schedule",
    ),
    (("--clients", "1", "--new-tokens", "0"), "at least one new token"),
    (("--clients", "1", "--new-tokens", "-3"), "at least one new token"),
    (("--clients", "1", "--timeout", "inf"), "time-out"),
    (("--clients", "1", "--timeout", "nan"), "time-out"),
    (("--clients", "1", "--timeout", "1e300"), "time-out"),
    (("--clients", "1", "--timeout", "0"), "time-out"),
    (("--clients", "1", "--vocabulary", "0"), "no token to draw"),
    (("--rate", "1e-10"), "more than a day"),
    (("--rate", "1e-320"), "more than a day"),
    (("--rate", "1e-10", "--arrivals", "poisson"), "more than a day"),
    (("--rate", "1e-320", "--arrivals", "poisson"), "more than a day"),
    (("--clients", "1", "--input-tokens", "2000000000"), "fewer tokens"),
    (("--clients", "1", "--requests", "2000000000"), "at most 100000"),
    (("--rate", "9", "--requests", "2000000000"), "at most 100000"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_what_cannot_be_done_is_one_sentence(
    url: str, tmp_path: Path, words: Options, sentence: str
) -> None:
    folder = tmp_path / "run"
    done = invoke(
        "loadtest", url, "--out", str(folder), *SMALL, *RANDOM, *words
    )
    assert isinstance(done.exception, LabError)
    assert sentence in str(done.exception)
    assert not folder.exists()


def test_no_server_is_one_sentence(tmp_path: Path) -> None:
    server = command.Server("http://127.0.0.1:9")
    wanted = command.Wanted(clients=1)
    with pytest.raises(LabError, match="No server of this course answers"):
        command.start(tmp_path / "run", server, wanted)
    with pytest.raises(LabError, match="no address"):
        command.start(tmp_path / "run", command.Server("ftp://x"), wanted)


def test_a_server_that_fails_always_is_data_and_an_error(
    serve: Any, tmp_path: Path
) -> None:
    """Every request fails, the run is complete, and the report says so."""
    folder = tmp_path / "run"
    player = serve([TimeLine((Step(0, "reset"),))])
    done = invoke(
        *("loadtest", player.url, "--out", str(folder), "--clients", "1"),
        *(*SMALL, *RANDOM, "--vocabulary", "256"),
    )
    assert isinstance(done.exception, LabError)
    assert "Not one request succeeded" in str(done.exception)
    assert verify.examine(folder)[0] == verify.COMPLETE
    (made,) = report.figures(evidence.load(folder))["configurations"].values()
    assert made["all"]["failure_rate"] == 1.0
    assert sum(made["all"]["failures"].values()) == 6
    assert made["all"]["ttft_ms"]["p50"] is None


def begun(url: str, folder: Path) -> None:
    wanted = command.Wanted(
        clients=1, requests=3, input_tokens=4, new_tokens=2, prompts="random"
    )
    command.start(folder, command.Server(url), wanted)


def test_a_run_is_not_resumed_with_another_server(
    url: str, serve: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    begun(url, folder)
    for other in (serve([TimeLine()]).url, "http://127.0.0.1:9"):
        done = invoke("loadtest", other, "--resume", "--out", str(folder))
        assert isinstance(done.exception, LabError)
        assert re.search("Another server|No server", str(done.exception))
    assert evidence.load(folder).ends == ()
    done = invoke("loadtest", url, "--resume", "--out", str(folder))
    assert done.exit_code == 0, done.output
    assert verify.examine(folder)[0] == verify.COMPLETE


def test_an_openai_run_is_not_resumed_with_other_models(
    url: str, serve: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    wanted = command.Wanted(
        clients=1, input_tokens=4, prompts="random", vocabulary=256
    )
    command.start(folder, command.Server(url, "counting"), wanted)
    other = command.Server(serve([TimeLine()]).url)
    with pytest.raises(LabError, match=r"its models: \['scripted'\], not"):
        command.go_on(folder, other)


@pytest.mark.parametrize(
    "words",
    [
        ("--openai", "x"),
        ("--keep-alive",),
        ("--clients", "2"),
        ("--rate", "3"),
        ("--requests", "4"),
        ("--input-tokens", "5"),
        ("--seed", "5"),
        ("--timeout", "5"),
        ("--objective", "ttft_ms=5"),
        ("--arrivals", "poisson"),
    ],
)
def test_resume_takes_no_other_options(
    url: str, tmp_path: Path, words: Options
) -> None:
    folder = tmp_path / "run"
    begun(url, folder)
    done = invoke("loadtest", url, "--resume", "--out", str(folder), *words)
    assert isinstance(done.exception, LabError)
    assert f"another {words[0]}" in str(done.exception)


def test_resume_takes_the_same_options(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    begun(url, folder)
    same = ("--clients", "1", "--requests", "3", "--seed", "0")
    done = invoke("loadtest", url, "--resume", "--out", str(folder), *same)
    assert done.exit_code == 0, done.output


def test_each_kind_of_run_is_resumed_by_its_own_command(
    url: str, tmp_path: Path, servers: list[str]
) -> None:
    folder = tmp_path / "load"
    begun(url, folder)
    done = invoke("matrix", "--resume", "--out", str(folder))
    assert isinstance(done.exception, LabError)
    assert "holds no matrix" in str(done.exception)
    folder = tmp_path / "matrix"
    made = matrix.plan(TEXT, 1000, subset=True)
    evidence.create(folder, made, matrix.about(subset=True, fast=False))
    done = invoke("loadtest", url, "--resume", "--out", str(folder))
    assert isinstance(done.exception, LabError)
    assert "holds a matrix" in str(done.exception)
    done = invoke("matrix", "--resume", "--fast", "--out", str(folder))
    assert isinstance(done.exception, LabError)
    assert "plain weights" in str(done.exception)
    assert not servers


@pytest.mark.parametrize("pid", [-1, 2**31 - 1])
def test_a_process_that_is_not_there(
    url: str, tmp_path: Path, pid: int
) -> None:
    folder = tmp_path / "run"
    begun(url, folder)
    with pytest.raises(LabError, match=f"no process {pid}"):
        command.go_on(folder, command.Server(url, pid=pid))


@pytest.mark.parametrize("openai", [False, True])
def test_a_server_with_a_key_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, openai: bool
) -> None:
    """The key comes from the environment, and is written nowhere."""
    monkeypatch.setenv("LABKIT_API_KEY", "secret-of-this-test")
    engine = SingleSlotEngine(CountingOn)
    engine.wait_until_ready(10)
    app = create_app(engine, access=Access("secret-of-this-test"))
    server = BackgroundServer(app).start()
    folder = tmp_path / "run"
    words = ("--openai", "counting", "--vocabulary", "256") * openai
    done = invoke(
        *("loadtest", server.url, "--out", str(folder), "--clients", "1"),
        *(*SMALL, *RANDOM, *words),
    )
    server.stop()
    assert engine.close()
    assert done.exit_code == 0, done.output
    for path in folder.iterdir():
        assert b"secret-of-this-test" not in path.read_bytes()
