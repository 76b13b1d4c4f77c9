"""How fast does one request decode, beside the library and llama.cpp?

    python bench/decode.py            # measure, print, keep the result
    python bench/decode.py --show     # the kept result as Markdown

Each contender has a process of its own. While one is measured the others
are suspended: no thread of theirs can spin, poll or wake. All conditions
run once in each round, in shuffled order.

The prefill ends when the first token is chosen, and decode is the rest. The
clock is the contender's own, in its process: for labkit around its loop, for
transformers from `generate` to the tokens that its streamer is given, for
llama.cpp the timings that its server reports (no HTTP is in them).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import keeping
import llama_cpp
import psutil
import report as reports
from report import BATCHES, BF16, FP32, LIBRARY, LLAMA_CPP, MACHINE, Report

from labkit import (
    baselines,
    checkpoints,
    costs,
    documents,
    kv_cache,
    machine,
    observations,
    results,
)
from labkit.errors import LabError
from labkit.llama_config import Config
from labkit.timing import Trials, measure

HERE = Path(__file__).resolve().parent
FILE = "decode.json"
PROMPT_TOKENS, NEW_TOKENS = 128, 64
ROUNDS, WARMUPS = 5, 1
APART = 7
"""Tokens between the beginnings of two prompts of a batch."""
THREADING = ("OMP_", "GOMP_", "KMP_", "MKL_")
"""Beginnings of the variables that decide how threads compute and wait."""
DTYPES = {FP32: "float32", BF16: "bfloat16"}
BYTES = {FP32: 4, BF16: 2}


@dataclass(frozen=True)
class Condition:
    """What is measured: one request to one contender."""

    name: str
    contender: str
    request: Mapping[str, Any]


def settings(threads: int) -> dict[str, str]:
    """The threading variables of every contender, and no others.

    Threads that wait for each other spin, as llama.cpp's own do.
    """
    return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "ACTIVE"}


def environment(
    inherited: Mapping[str, str], chosen: Mapping[str, str]
) -> dict[str, str]:
    """What is inherited, its threading variables replaced by `chosen`."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.upper().startswith(THREADING)
    }
    return {**kept, **chosen}


class Worker:
    """One contender's process; suspended unless it is asked something.

    `command` starts it, and `log` takes what it writes as an error.
    LabError, and no process left, when it does not get ready.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        variables: Mapping[str, str],
        log: IO[bytes],
    ) -> None:
        self.name, self._log = name, log
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=variables,
        )
        try:
            self._handle = psutil.Process(self._process.pid)
            self._read()
            self._suspend()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer; LabError when it has none."""
        # One that has died is no error yet: `_read` has its last words.
        # (Windows calls a pipe without a reader an invalid argument.)
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            self._handle.resume()
            print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._read()
        self._suspend()
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _suspend(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # as in `ask`
            self._handle.suspend()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise LabError(f"{self.name} stopped: {self._last_words()}")
        try:
            answer = documents.parse(line)
        except LabError as error:
            raise LabError(
                f"{self.name} answered {line.strip()[:200]!r}, and {error}."
            ) from error
        if "error" in answer:
            raise LabError(f"{self.name} stopped: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it gave no reason"


def conditions(prompts: Sequence[Sequence[int]]) -> list[Condition]:
    """Everything that is run in a round."""

    def generate(contender: str, count: int = 1) -> Condition:
        request = {
            "work": "generate",
            "prompts": [list(ids) for ids in prompts[:count]],
            "new_tokens": NEW_TOKENS,
        }
        name = reports.in_batch(contender, count)
        return Condition(name, contender, request)

    def alone(
        contender: str, rows: int, product: str = reports.LINEAR
    ) -> Condition:
        request = {"work": "matrices", "rows": rows, "product": product}
        name = reports.matrices(contender, rows, product)
        return Condition(name, contender, request)

    return [
        *map(generate, (FP32, BF16, LIBRARY, LLAMA_CPP)),
        *(generate(name, n) for name in (FP32, BF16) for n in BATCHES),
        alone(FP32, 1),
        alone(FP32, 1, reports.F_LINEAR),
        alone(FP32, PROMPT_TOKENS),
        alone(BF16, 8),
        Condition(MACHINE, MACHINE, {"work": "speed"}),
    ]


def prompts_of(ids: Sequence[int]) -> list[list[int]]:
    """Prompts for the largest batch; the first begins with the passage."""
    needed = PROMPT_TOKENS + APART * (max(BATCHES) - 1)
    if len(ids) < needed:
        raise LabError(
            f"The passage has {len(ids)} tokens and {needed} are needed: put"
            " data/prompts/passage.txt back as it was."
        )
    starts = range(0, APART * max(BATCHES), APART)
    return [list(ids[start : start + PROMPT_TOKENS]) for start in starts]


@contextmanager
def workers(names: Sequence[str], threads: int) -> Iterator[dict[str, Worker]]:
    """Start the contenders one after the other; end them all."""
    variables = environment(os.environ, settings(threads))
    script = str(HERE / "contenders.py")
    with ExitStack() as stack:
        made = {}
        for name in names:
            print(f"Starting {name} ...", flush=True)
            log = stack.enter_context(tempfile.TemporaryFile())
            command = [sys.executable, script, name, str(threads)]
            made[name] = Worker(name, command, variables, log)
            stack.callback(made[name].close)
        yield made


def run(
    wanted: Sequence[Condition], threads: int
) -> tuple[Trials[dict[str, Any]], dict[str, reports.Tokens]]:
    """Measure; the trials, and the new ids of each condition."""
    names = list(dict.fromkeys(condition.contender for condition in wanted))
    with workers(names, threads) as running:
        pids = [worker.pid for worker in running.values()]

        def ask(condition: Condition) -> dict[str, Any]:
            return running[condition.contender].ask(condition.request)

        def sampler() -> observations.Sample:
            return replace(observations.sample(pids), threads=threads)

        trials = measure(
            {condition.name: partial(ask, condition) for condition in wanted},
            repeats=ROUNDS,
            warmups=WARMUPS,
            check=same_ids,
            digest=without_ids,
            sampler=sampler,
        )
    if not trials.complete:
        raise LabError("The run was interrupted, so nothing is kept.")
    tokens = {
        name: tuple(map(tuple, answer["ids"]))
        for name, answer in trials.latest.items()
        if "ids" in answer
    }
    return trials, tokens


def same_ids(
    name: str, previous: Mapping[str, Any], new: Mapping[str, Any]
) -> bool:
    """Whether a condition gave the tokens that it gave before."""
    return bool(previous.get("ids") == new.get("ids"))


def without_ids(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of an answer; its ids are kept once for all rounds."""
    return {name: value for name, value in answer.items() if name != "ids"}


def missing() -> tuple[str, ...]:
    """One sentence for each contender that cannot run here."""
    found = importlib.util.find_spec(llama_cpp.PACKAGE)
    return () if found else (llama_cpp.MISSING,)


def measured() -> Report:
    """Run everything and put it together."""
    threads = machine.default_threads()
    started = results.timestamp(datetime.now(UTC))
    passage = baselines.data_folder(HERE) / "prompts" / "passage.txt"
    text = passage.read_text(encoding="utf-8")
    ids = checkpoints.load_tokenizer().encode(text).ids
    left_out = missing()
    wanted = [
        condition
        for condition in conditions(prompts_of(ids))
        if not (left_out and condition.contender == LLAMA_CPP)
    ]
    for sentence in left_out:
        print(sentence)
    trials, tokens = run(wanted, threads)
    config = Config.read(checkpoints.model_folder())
    return Report(
        started_utc=started,
        machine=machine.identify(),
        software=software(left_out),
        model=model(),
        protocol=results.Protocol.of(
            f"decode {PROMPT_TOKENS} in {NEW_TOKENS} out, version 1",
            trials.schedule,
            threads,
            hashlib.sha256(text.encode()).hexdigest(),
        ),
        environment=settings(threads),
        prompt_tokens=PROMPT_TOKENS,
        new_tokens=NEW_TOKENS,
        weight_bytes={n: costs.weight_bytes(config, BYTES[n]) for n in BYTES},
        cache_bytes={n: mean_cache_bytes(config, DTYPES[n]) for n in DTYPES},
        tokens=tokens,
        missing=left_out,
        observations=trials.observations,
    )


def mean_cache_bytes(config: Config, dtype: str) -> float:
    """Bytes of one sequence's cache, averaged over the decode steps.

    The first step reads the prompt and itself, the last all but one token.
    """
    lengths = PROMPT_TOKENS + 1, PROMPT_TOKENS + NEW_TOKENS - 1
    mean = sum(lengths) / 2
    return mean * kv_cache.bytes_per_token(config, dtype)


def model() -> results.Model:
    """The pinned checkpoint, by its file of weights."""
    checkpoint = checkpoints.find(checkpoints.DEFAULT)
    return results.Model(
        name=checkpoint.title,
        source=checkpoint.source.address,
        revision=checkpoint.revision,
        sha256=checkpoint.pins["model.safetensors"].sha256,
        dtype="float32",
    )


def software(left_out: Sequence[str]) -> dict[str, str]:
    """Versions that matter here: the course's, and llama.cpp's package."""
    peer = {} if left_out else {"xllamacpp": metadata.version("xllamacpp")}
    return {**machine.software(), **peer}


if __name__ == "__main__":
    try:
        keeping.run_or_show(__doc__, FILE, reports, measured)
    except LabError as error:
        sys.exit(str(error))
