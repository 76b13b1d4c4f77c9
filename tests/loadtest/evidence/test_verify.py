"""The verifier: what it finds, and that it needs nothing."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from labkit import __main__
from labkit.loadtest import evidence, recorder, verify

SOURCE = Path(verify.__file__)
VOCABULARY = 1000
NAMES = (*evidence.SEALED, evidence.MANIFEST)


def status(folder: Path) -> int:
    found, sentences = verify.examine(folder)
    assert sentences
    return found


def told(folder: Path) -> str:
    found, sentences = verify.examine(folder)
    assert found == verify.DIFFERS
    return "\n".join(sentences)


def test_a_finished_run_is_complete_and_right(folder: Path) -> None:
    found, sentences = verify.examine(folder)
    assert (found, len(sentences)) == (verify.COMPLETE, 1)
    assert "6 requests" in sentences[0]


def test_it_stands_alone_on_a_bare_python(folder: Path) -> None:
    """No labkit, no site-packages, no environment, another folder."""
    kept = {n: v for n, v in os.environ.items() if n == "SYSTEMROOT"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SOURCE), str(folder)],
        cwd=folder.parent,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Complete and right" in done.stdout
    assert not done.stderr


def test_it_is_short_and_imports_only_the_standard_library() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    for node in ast.walk(ast.parse(text, feature_version=(3, 11))):
        names = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            names = [node.module or ""]
        for name in names:
            assert name.partition(".")[0] in sys.stdlib_module_names


def test_nobody_who_reports_uses_it() -> None:
    """What checks a figure shares no code with what made it."""
    for name in ("report", "metrics", "rates", "laws", "tables", "recorder"):
        text = (SOURCE.parent / f"{name}.py").read_text(encoding="utf-8")
        assert "verify" not in re.findall(r"^.*import.*$", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_any_digit_that_is_changed_is_found(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    places = [n for n, byte in enumerate(data) if chr(byte).isdigit()]
    assert places
    for place in places:
        changed = bytearray(data)
        changed[place] = ord(str((int(chr(changed[place])) + 1) % 10))
        (folder / name).write_bytes(changed)
        assert status(folder) == verify.DIFFERS, data[:place][-60:]
    (folder / name).write_bytes(data)
    assert status(folder) == verify.COMPLETE


def shuffled(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Lines with one deleted, one doubled, two swapped."""
    for n in range(len(lines)):
        yield lines[:n] + lines[n + 1 :]
        yield lines[: n + 1] + lines[n:]
        if n:
            yield [*lines[: n - 1], lines[n], lines[n - 1], *lines[n + 1 :]]


@pytest.mark.parametrize("hashes_match", [False, True])
@pytest.mark.parametrize("name", evidence.LINES)
def test_a_line_deleted_doubled_or_moved_is_found(
    folder: Path, tools: Any, name: str, hashes_match: bool
) -> None:
    """By the hashes; where those were made to match, by the chain.

    What is cut off the end of a file breaks no chain: the last line of
    events.jsonl has the number of lines of the others.
    """
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    for changed in shuffled(lines):
        (folder / name).write_bytes(b"".join(changed))
        if hashes_match:
            tools.hash_again(folder)
            text = told(folder)
            cut_off = changed == lines[:-1]
            assert f"{name} line " in text or (cut_off and ".jsonl" in text)
        assert status(folder) == verify.DIFFERS


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_gone_is_found(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in told(folder)


def numbers(value: Any, path: tuple[str, ...] = ()) -> Iterator[Any]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from numbers(inner, (*path, name))
        elif inner is not None:
            yield (*path, name)


def test_every_figure_is_computed_again(folder: Path, tools: Any) -> None:
    """Changed with the hash made to match, it is found by name."""
    path = folder / evidence.REPORT
    original = path.read_text(encoding="utf-8")
    places = list(numbers(json.loads(original)))
    assert len(places) > 100
    for place in places:
        document = json.loads(original)
        inner = document
        for name in place[:-1]:
            inner = inner[name]
        value = inner[place[-1]]
        if isinstance(value, float):
            inner[place[-1]] = math.nextafter(value, math.inf)
        else:
            inner[place[-1]] = value + (1 if isinstance(value, int) else "1")
        path.write_text(json.dumps(document), encoding="utf-8")
        tools.hash_again(folder)
        text = told(folder)
        assert ": ".join(("report.json", *place)) in text
        assert "expected" in text


@pytest.mark.parametrize("extra", [{"more": 1}, None])
def test_a_report_with_other_fields_is_found(
    folder: Path, tools: Any, extra: dict[str, int] | None
) -> None:
    path = folder / evidence.REPORT
    document = json.loads(path.read_bytes())
    document = document | extra if extra else dict(list(document.items())[1:])
    path.write_text(json.dumps(document), encoding="utf-8")
    tools.hash_again(folder)
    assert "missing" in told(folder)


Change = tuple[str, int, dict[str, Any], str]
FORGED: list[Change] = [
    ("events.jsonl", 3, {"time_ns": 1}, "out of order"),
    ("events.jsonl", 4, {"ids": [1000]}, "outside the vocabulary"),
    ("events.jsonl", 4, {"ids": [-1]}, "outside the vocabulary"),
    ("events.jsonl", 2, {"time_ns": 5}, "sent_ns: found"),
    ("events.jsonl", 4, {"tokens": 2}, "not whole"),
    ("events.jsonl", 4, {"segment": 2}, "not inside its segment"),
    ("events.jsonl", 4, {"server_ns": 1}, "out of order"),
    ("events.jsonl", -1, {"reason": "interrupted"}, "its end is not"),
    ("events.jsonl", 0, {"kind": "other"}, "is no"),
    ("requests.jsonl", 1, {"request": "m999"}, "not planned"),
    ("requests.jsonl", 1, {"request": "w000"}, "twice"),
    ("requests.jsonl", 1, {"prompt_sha256": "0"}, "prompt_sha256: found '0'"),
    ("requests.jsonl", 1, {"arrivals": 5}, "arrivals: found 5, expected 4"),
    ("requests.jsonl", 1, {"end_ns": 7}, "out of order"),
    ("requests.jsonl", 1, {"connected_ns": 7}, "out of order"),
    ("requests.jsonl", 1, {"new_tokens": 3}, "not whole"),
    ("requests.jsonl", 1, {"failure": "timeout"}, "failed: found 0"),
    ("requests.jsonl", 1, {"queued_ns": 0}, "queue_ms"),
    ("events.jsonl", 2, {"kind": "other"}, "no beginning"),
    ("requests.jsonl", 1, {"due_ns": 1}, "not the plan's"),
    ("requests.jsonl", 1, {"phase": "warmup", "end_ns": 7}, "out of order"),
    ("rss.jsonl", 0, {"lag_ns": 10**9}, "client_lag_ms"),
    ("rss.jsonl", 0, {"rss_bytes": 5}, "peak_rss_bytes"),
]


@pytest.mark.parametrize("forged", FORGED)
def test_forged_lines_break_a_law_or_a_figure(
    folder: Path, tools: Any, forged: Change
) -> None:
    """Even where chain and hashes were made again to match."""
    name, line, change, sentence = forged
    lines = [json.loads(x) for x in (folder / name).read_bytes().splitlines()]
    lines[line] |= change
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (folder / name).write_text(text, encoding="utf-8")
    tools.chain_again(folder)
    assert sentence in told(folder)


def test_another_prompt_in_the_plan_is_found(folder: Path, tools: Any) -> None:
    path = folder / evidence.ENVIRONMENT
    document = json.loads(path.read_bytes())
    document["requests"][1]["prompt_ids"][0] += 1
    path.write_text(json.dumps(document), encoding="utf-8")
    assert "environment.json: found" in told(folder)
    tools.hash_again(folder)
    assert "requests.jsonl line 1" in told(folder)
    tools.chain_again(folder)
    assert "prompt_sha256" in told(folder)


def test_a_request_that_was_left_out_is_found(
    folder: Path, tools: Any
) -> None:
    for name in (evidence.REQUESTS, evidence.EVENTS):
        path = folder / name
        kept = [
            line.replace(b'"requests.jsonl":6', b'"requests.jsonl":5')
            for line in path.read_bytes().splitlines(keepends=True)
            if b'"m001"' not in line
        ]
        path.write_bytes(b"".join(kept))
    tools.chain_again(folder)
    assert "m001 is there 0 times" in told(folder)


@pytest.mark.parametrize("change", [{"version": 2}, {"schema": "other"}])
def test_another_form_of_evidence_is_not_judged(
    folder: Path, tools: Any, change: dict[str, Any]
) -> None:
    path = folder / evidence.ENVIRONMENT
    document = json.loads(path.read_bytes()) | change
    path.write_text(json.dumps(document), encoding="utf-8")
    tools.chain_again(folder)
    assert told(folder).startswith("environment.json: ")


def test_events_of_a_request_that_has_no_line_are_found(
    folder: Path, tools: Any
) -> None:
    """A segment that went through leaves no request on its way."""
    path = folder / evidence.REQUESTS
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"m001"' not in line]
    path.write_bytes(b"".join(kept))
    events = folder / evidence.EVENTS
    data = events.read_bytes()
    events.write_bytes(
        data.replace(b'"requests.jsonl":6', b'"requests.jsonl":5')
    )
    tools.chain_again(folder)
    assert "events of m001 without a line" in told(folder)


def test_a_request_that_was_measured_twice_is_found(
    tmp_path: Path, tools: Any
) -> None:
    """In a partial run, too, where nothing has to be there."""
    folder = tmp_path / "run"
    made = tools.plan()
    evidence.create(folder, made, tools.about)
    planned = made.of("two clients", "measured")[0]
    for segment in (1, 2):
        with recorder.Recorder(folder, segment) as writing:
            writing.start(0)
            record = tools.Client().send(
                planned.to_send(),
                on_sent=writing.sent,
                on_arrival=writing.arrived,
            )
            writing.finished(record, planned)
            writing.end(time.perf_counter_ns(), "interrupted")
        if segment == 1:
            assert status(folder) == verify.PARTIAL
    assert "m000 is there 2 times" in told(folder)


def test_a_due_moment_off_the_schedule_is_found(
    tmp_path: Path, tools: Any
) -> None:
    folder = tools.run(tmp_path / "run", tools.plan(open_loop=True))
    path = folder / evidence.REQUESTS
    lines = [json.loads(x) for x in path.read_bytes().splitlines()]
    for line in lines:
        line["due_ns"] = line["due_ns"] and line["due_ns"] - 1
    (later,) = (each for each in lines if each["request"] == "m004")

    def found() -> str:
        text = "".join(json.dumps(each) + "\n" for each in lines)
        path.write_text(text, encoding="utf-8")
        tools.chain_again(folder)
        return told(folder)

    assert "ttft_from_schedule_ms" in found()  # all shifted alike
    for forged in (later["due_ns"] - 1, None):
        later["due_ns"] = forged
        assert "not the plan's" in found()


def test_a_name_that_is_not_ascii_is_printed(tmp_path: Path) -> None:
    found, sentences = verify.examine(tmp_path / "\u00e9\x1b")
    assert found == verify.UNREADABLE
    assert sentences[0].isascii()


def test_laws_of_a_server_hold_for_answers_that_succeeded(
    tmp_path: Path, tools: Any
) -> None:
    """What a server did wrong in another never discards a run."""
    folder = tools.run(tmp_path / "run", failing=("m000",))
    for name, change in (
        ("events.jsonl", {"ids": [VOCABULARY + 1], "server_ns": 1}),
        ("requests.jsonl", {"queued_ns": 10**19}),
    ):
        path = folder / name
        lines = [json.loads(x) for x in path.read_bytes().splitlines()]
        for line in lines:
            token = line.get("kind", "token") == "token"
            if line.get("request") == "m000" and token:
                line.update(change)
        text = "".join(json.dumps(each) + "\n" for each in lines)
        path.write_text(text, encoding="utf-8")
    tools.chain_again(folder)
    assert verify.examine(folder)[0] == verify.COMPLETE


def test_a_row_does_not_override_the_plan(folder: Path, tools: Any) -> None:
    path = folder / evidence.REQUESTS
    lines = [json.loads(x) for x in path.read_bytes().splitlines()]
    lines[1] |= {"phase": "warmup", "configuration": "x", "prompt_ids": []}
    text = "".join(json.dumps(each) + "\n" for each in lines)
    path.write_text(text, encoding="utf-8")
    tools.chain_again(folder)
    assert status(folder) == verify.COMPLETE


def test_what_is_missing_is_no_text(folder: Path) -> None:
    path = folder / evidence.MANIFEST
    document = json.loads(path.read_bytes()) | {"more": "missing"}
    path.write_text(json.dumps(document), encoding="utf-8")
    assert "more: found 'missing', expected b'missing'" in told(folder)


def test_what_is_printed_is_plain_ascii(folder: Path) -> None:
    path = folder / evidence.MANIFEST
    strange = {"\ud800\x1b[31m\u00e9": 1}
    document = json.loads(path.read_bytes()) | strange
    path.write_text(json.dumps(document), encoding="utf-8")
    text = told(folder)
    assert text.isascii()
    assert text.isprintable()


def test_a_file_that_is_too_large_is_not_read(folder: Path) -> None:
    with (folder / evidence.RSS).open("r+b") as file:
        file.truncate(2**40)
    assert "rss.jsonl: it is missing, or over 1 GiB" in told(folder)


def test_lines_that_a_partial_run_lost_are_found(
    folder: Path, tools: Any
) -> None:
    """A segment says at its end how many lines there are."""
    (folder / evidence.REPORT).unlink()
    evidence.write_manifest(folder, complete=False)
    assert status(folder) == verify.PARTIAL
    path = folder / evidence.RSS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert "other files lack lines" in told(folder)


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
BAD: dict[str, bytes] = {
    "binary": bytes(range(256)),
    "empty": b"",
    "deep": DEEP,
    "deep list": b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    "huge number": b'{"state":' + b"9" * 5000 + b"}",
    "large number": b'{"state":1' + b"0" * 4000 + b"}",
    "not finite": b'{"state":NaN,"a":1e999}',
    "a list": b"[1,2]",
    "a text": b'"complete"',
    "UTF-16": '{"state":1}'.encode("utf-16"),
    "lines": b"\n\n{}\n",
    "links": b'{"chain":"1"}\n{"kind":[],"chain":"2"}\n',
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", BAD)
def test_bad_files_give_a_sentence(
    folder: Path, tools: Any, name: str, kind: str
) -> None:
    (folder / name).write_bytes(BAD[kind])
    assert status(folder) == verify.DIFFERS
    if name != evidence.MANIFEST:
        tools.hash_again(folder)
        assert status(folder) == verify.DIFFERS


@pytest.mark.parametrize(
    "value",
    [None, True, "x", -1, 1.5, 1e308, 10**400, [], {}, [[1]], {"a": None}],
)
def test_values_of_another_kind_give_a_sentence(
    folder: Path, tools: Any, finished: Mapping[str, bytes], value: Any
) -> None:
    """Each field in turn, with chain and hashes made again to match."""
    for name in (*evidence.LINES, evidence.ENVIRONMENT):
        lines = [json.loads(x) for x in finished[name].splitlines()]
        for number, line in enumerate(lines[:4]):
            for field in line:
                if field == "chain":
                    continue
                changed = lines.copy()
                changed[number] = line | {field: value}
                text = "".join(json.dumps(each) + "\n" for each in changed)
                (folder / name).write_text(text, encoding="utf-8")
                tools.chain_again(folder)
                assert status(folder) in (verify.COMPLETE, verify.DIFFERS)
        for other, data in finished.items():
            (folder / other).write_bytes(data)


def test_what_is_no_folder_with_evidence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    for path in (file, tmp_path, tmp_path / "none", Path("a\0b")):
        assert status(path) == verify.UNREADABLE


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """A link may lead out of the folder: to what nobody has checked."""
    elsewhere = tmp_path / "elsewhere"
    (folder / evidence.RSS).rename(elsewhere)
    (folder / evidence.RSS).symlink_to(elsewhere)
    assert "rss.jsonl: it is missing" in told(folder)


def test_the_command_says_the_same(folder: Path) -> None:
    command = CliRunner()
    done = command.invoke(__main__.app, ["verify", str(folder)])
    assert (done.exit_code, "Complete" in done.output) == (0, True)
    (folder / evidence.RSS).write_bytes(b"")
    done = command.invoke(__main__.app, ["verify", str(folder)])
    assert (done.exit_code, "rss.jsonl" in done.output) == (1, True)
    nowhere = str(folder / "none")
    done = command.invoke(__main__.app, ["verify", nowhere])
    assert done.exit_code == verify.UNREADABLE


@pytest.mark.parametrize("words", [[], ["-h"], ["a", "b"]])
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main(words) == verify.UNREADABLE
    assert "verify.py FOLDER" in capsys.readouterr().out
