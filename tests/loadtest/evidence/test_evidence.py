"""The folder: how it begins and ends, what a kill leaves, what is read."""

from __future__ import annotations

import getpass
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.loadtest import evidence, laws, recorder, verify
from labkit.loadtest.records import Arrival, Record

KILLS = 20
CHILD = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("tools", sys.argv[1])
tools = importlib.util.module_from_spec(spec)
sys.modules["tools"] = tools
spec.loader.exec_module(tools)
folder = Path(sys.argv[2])
tools.evidence.create(folder, tools.make_plan(requests=8), tools.ABOUT)
print("ready", flush=True)
tools.measure(folder, tools.PlayingClient(pause_s=0.003))
print("over", flush=True)
sys.stdin.read()
"""


def killed_after(folder: Path, seconds: float) -> None:
    """A run in a process of its own that ends by SIGKILL."""
    tools = str(Path(__file__).with_name("conftest.py"))
    command = [sys.executable, "-c", CHILD, tools, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"ready"
        time.sleep(seconds)
        child.kill()


def whole_lines(folder: Path) -> dict[str, bytes]:
    found = {}
    for name in evidence.LINES:
        data = (folder / name).read_bytes()
        found[name] = data[: data.rfind(b"\n") + 1]
    return found


def test_a_kill_at_any_moment_loses_no_line(
    tmp_path: Path, tools: Any
) -> None:
    """It verifies as partial; the rest is measured, and nothing twice."""
    moments = [random.uniform(0, 0.35) for _ in range(KILLS)]
    folders = [tmp_path / f"run{n}" for n in range(KILLS)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(killed_after, folders, moments))
    states: Counter[int] = Counter()
    for folder in folders:
        status, sentences = verify.examine(folder)
        states[status] += 1
        assert status in (verify.PARTIAL, verify.COMPLETE), sentences
        kept = whole_lines(folder)
        before = evidence.load(folder)
        client = tools.Client()
        assert tools.measure(folder, client)
        assert not before.finished & {n for n in client.sent if n[0] == "m"}
        status, sentences = verify.examine(folder)
        assert status == verify.COMPLETE, sentences
        for name, data in kept.items():
            assert (folder / name).read_bytes().startswith(data)
        check_resumed(before, evidence.load(folder))
    assert states[verify.PARTIAL] > KILLS // 4


def check_resumed(before: evidence.Evidence, after: evidence.Evidence) -> None:
    assert after.runs[: len(before.runs)] == before.runs
    assert laws.violations(measured(after)) == []
    names = Counter(record.request for record in measured(after))
    assert names == dict.fromkeys((f"m{n:03}" for n in range(16)), 1)
    assert len(after.ends) == len(before.ends) + (not before.ended)


def measured(found: evidence.Evidence) -> list[Record]:
    records = [run.record for run in found.runs]
    return [record for record in records if record.request[0] == "m"]


@pytest.mark.parametrize("name", evidence.LINES)
@pytest.mark.parametrize("torn", [b"{", b'{"a":1}', b"\xff\0", b"1" * 99_999])
def test_a_torn_last_line_is_forgiven_and_cut_off(
    tmp_path: Path, tools: Any, name: str, torn: bytes
) -> None:
    folder = tmp_path / "run"
    evidence.create(folder, tools.plan(), tools.about)
    with (folder / name).open("ab") as file:
        file.write(torn)
    assert verify.examine(folder)[0] == verify.PARTIAL
    assert tools.measure(folder, tools.Client())
    assert verify.examine(folder)[0] == verify.COMPLETE
    assert (folder / name).read_bytes().endswith(b"\n")
    first = json.loads((folder / evidence.EVENTS).read_bytes().split(b"\n")[0])
    assert first["cut_bytes"] == {name: len(torn)}


@pytest.mark.parametrize("name", evidence.LINES)
def test_nothing_else_is_forgiven(
    tmp_path: Path, tools: Any, name: str
) -> None:
    """In a partial run either: a line in the middle must be whole."""
    folder = tmp_path / "run"
    evidence.create(folder, tools.plan(), tools.about)
    with (folder / name).open("ab") as file:
        file.write(b'{"torn":\n')
    assert verify.examine(folder)[0] == verify.DIFFERS
    with pytest.raises(LabError, match=f"is not used: {name} line 1"):
        tools.measure(folder, tools.Client())


def test_a_sealed_folder_forgives_no_torn_line(folder: Path) -> None:
    with (folder / evidence.EVENTS).open("ab") as file:
        file.write(b"{")
    assert verify.examine(folder)[0] == verify.DIFFERS


def test_a_run_that_ended_but_was_not_sealed_is_partial(
    tmp_path: Path, tools: Any
) -> None:
    """It is sealed by the next run, which measures nothing."""
    from labkit.loadtest import runner

    folder = tmp_path / "run"
    evidence.create(folder, tools.plan(), tools.about)
    connect = tools.connect(tools.Client())
    assert runner.run(folder, connect, make_bar=tools.quiet)
    assert verify.examine(folder)[0] == verify.PARTIAL
    client = tools.Client()
    assert tools.measure(folder, client)
    assert not client.sent
    assert verify.examine(folder)[0] == verify.COMPLETE
    assert evidence.load(folder).ends == ("complete",)


def test_a_folder_that_exists_is_not_written_over(
    folder: Path, tools: Any
) -> None:
    for place in (folder, Path(), Path("..")):
        with pytest.raises(LabError, match="exists already"):
            evidence.create(place, tools.plan(), tools.about)
    assert verify.examine(folder)[0] == verify.COMPLETE


def test_a_folder_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, tools: Any
) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    with pytest.raises(LabError, match="cannot be written"):
        evidence.create(file / "run", tools.plan(), tools.about)
    assert list(tmp_path.iterdir()) == [file]


def test_what_was_recorded_is_what_is_read(tmp_path: Path, tools: Any) -> None:
    folder = tmp_path / "run"
    made = tools.plan()
    evidence.create(folder, made, tools.about)
    texts = ['"', "\\", "\n", "\ud83d", "\U0001f600", '","chain":"', "\0"]
    arrivals = tuple(
        Arrival(20 + n, "token", (n,), 1, None, text)
        for n, text in enumerate(texts)
    )
    done = Arrival(40, "done", server_ns=39)
    record = Record(
        "m000", 10, 50, None, 11, (*arrivals, done), 200, counted="ids"
    )
    planned = made.of("two clients", "measured")[0]
    with recorder.Recorder(folder, 1) as writing:
        writing.start(1)
        writing.sent("m000", 10)
        for arrival in record.arrivals:
            writing.arrived("m000", arrival)
        writing.finished(record, planned)
        writing.end(60, "interrupted")
        writing.sent("m001", 70)  # too late: it was given up
    found = evidence.load(folder)
    assert found.plan == made
    assert [run.record for run in found.runs] == [record]
    assert found.ends == ("interrupted",)


def test_nothing_personal_is_written(finished: Mapping[str, bytes]) -> None:
    words = {getpass.getuser(), platform.node(), str(Path.home())}
    words |= {os.sep + "tmp", os.sep + "home"}
    for name, data in finished.items():
        for word in words - {"", "root"}:
            assert word.encode() not in data, name


@given(
    name=st.sampled_from([*evidence.SEALED, evidence.MANIFEST]),
    place=st.floats(0, 1),
    cut=st.integers(0, 300),
    new=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(st.text(max_size=8), inner, max_size=4)
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
    again=st.booleans(),
)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_a_file_holds_there_is_a_verdict(  # noqa: PLR0917
    folder: Path,
    tools: Any,
    finished: Mapping[str, bytes],
    name: str,
    place: float,
    cut: int,
    new: bytes,
    again: bool,
) -> None:
    """Bytes put into a file, with links and hashes made again or not."""
    for other, data in finished.items():
        (folder / other).write_bytes(data)
    data = finished[name]
    start = round(place * len(data))
    changed = data[:start] + new + data[start + cut :]
    (folder / name).write_bytes(changed)
    if again and name != evidence.MANIFEST:
        with suppress(ValueError, TypeError, AttributeError):
            tools.chain_again(folder)
    status, sentences = verify.examine(folder)
    assert sentences
    if changed == data:
        assert status == verify.COMPLETE
    elif not again:
        assert status != verify.COMPLETE
    with suppress(LabError):
        evidence.load(folder)
        assert status in (verify.COMPLETE, verify.PARTIAL)
