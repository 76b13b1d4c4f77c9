"""The matrix of published result B, on this machine.

1 or 2 threads, 1 or 2 clients, 64 or 256 tokens in: six prompts each, 24
tokens out, after a warm-up that does not count; 48 requests, 1,152 tokens.
The configurations run in a shuffled order, where the original's was fixed:
whatever changes as time goes by (a machine that gets warm, another program)
then does not always fall on the same one. Each has a server process of its
own, so that peak memory is that of this configuration alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from labkit import checkpoints
from labkit.errors import LabError
from labkit.loadtest import (
    evidence,
    place,
    report,
    runner,
    served,
    workload,
)
from labkit.loadtest.loops import Serving
from labkit.loadtest.plan import Configuration, Plan, Planned, number

THREADS = (1, 2)
CLIENTS = (1, 2)
LENGTHS = (64, 256)
SUBSET_LENGTHS = (64,)
PROMPTS = 6
WARMUPS = 1
NEW_TOKENS = 24
SEED = 12
TARGET = "lab"


def name_of(threads: int, clients: int, length: int) -> str:
    """As in data/published/llm_serving_bench.json."""
    return (
        f"{threads} thread{'s' * (threads > 1)}, "
        f"{clients} client{'s' * (clients > 1)}, {length} in"
    )


def plan(
    ids: Sequence[int],
    vocabulary: int,
    *,
    subset: bool = False,
    seed: int = SEED,
) -> Plan:
    """What is to be done; all prompts are different windows of a text.

    `subset` leaves the longer prompts out. The order and the prompts
    follow from the seed.
    """
    lengths = SUBSET_LENGTHS if subset else LENGTHS
    asked = list(product(THREADS, CLIENTS, lengths))
    # No secret: a seed is there to give the same order again.
    random.Random(seed).shuffle(asked)  # noqa: S311
    each = WARMUPS + PROMPTS
    wanted = [length for *_, length in asked for _ in range(each)]
    prompts = workload.from_text(ids, wanted, seed)
    requests: list[Planned] = []
    for index, (threads, clients, length) in enumerate(asked):
        name = name_of(threads, clients, length)
        mine = prompts[index * each : (index + 1) * each]
        requests += number(
            name, "warmup", mine[:WARMUPS], NEW_TOKENS, index * WARMUPS
        )
        requests += number(
            name, "measured", mine[WARMUPS:], NEW_TOKENS, index * PROMPTS
        )
    return Plan(
        seed=seed,
        prompts="windows of data/prompts/passage.txt",
        vocabulary=vocabulary,
        configurations=tuple(
            Configuration(name_of(*each), threads=each[0], clients=each[1])
            for each in asked
        ),
        requests=tuple(requests),
    )


def run(
    folder: Path,
    *,
    subset: bool = False,
    fast: bool = False,
    seed: int = SEED,
    resume: bool = False,
) -> bool:
    """Measure the matrix, or what is missing of it; whether it is whole.

    `fast` serves fused weights: the same tokens sooner. LabError for a
    folder that exists already, unless it is to be resumed.
    """
    if not resume:
        ids = workload.passage_ids()
        made = plan(ids, vocabulary(), subset=subset, seed=seed)
        evidence.create(folder, made, about(subset=subset, fast=fast))
    begun = evidence.load(folder)
    target = begun.environment["target"]
    if not isinstance(target, dict) or "matrix" not in target:
        raise LabError(
            f"{folder} holds no matrix: finish it with `python -m labkit"
            f" loadtest URL --resume --out {folder}`."
        )
    if fast and target["weights"] != "fused":
        raise LabError(
            "This matrix was begun with plain weights: leave --fast out."
        )
    place.require_same(begun)
    fused = target["weights"] == "fused"
    whole = runner.run(folder, lambda asked: _server(asked, fast=fused))
    if whole:
        report.finish(folder)
    return whole


def about(*, subset: bool, fast: bool) -> dict[str, Any]:
    """Machine, software, model and target, as environment.json has them."""
    checkpoint = checkpoints.find(checkpoints.DEFAULT)
    return {
        **place.here(),
        "model": {
            "name": checkpoint.name,
            "source": checkpoint.source.address,
            "revision": checkpoint.revision,
            "sha256": checkpoint.pins["model.safetensors"].sha256,
            "dtype": "float32",
        },
        "target": {
            "protocol": TARGET,
            "weights": "fused" if fast else "plain",
            "matrix": "subset: 64 tokens in alone" if subset else "full",
        },
    }


def vocabulary() -> int:
    """How many token ids the course's model has."""
    return int(checkpoints.load_tokenizer().get_vocab_size())


@contextmanager
def _server(asked: Configuration, *, fast: bool) -> Iterator[Serving]:
    """A server of its own, with the threads that are asked for."""
    from labkit.loadtest.client import Client
    from labkit.loadtest.lab_target import LabTarget
    from labkit.serving.process import ServerProcess

    options = ["--threads", str(asked.threads)]
    options += ["--fast"] * fast
    with (
        ServerProcess(options=options) as server,
        Client(LabTarget(server.url)) as client,
    ):
        told = served.health(server.url)
        yield Serving(client, server.pid, told["threads"])
