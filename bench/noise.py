"""Does the noise flag fire beside a program that takes a core?

    python bench/noise.py

Measures one real condition twice in one session each: on the machine as it
is, and beside a process that spins. Prints both verdicts with their reasons.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from labkit import machine
from labkit.text_model import TextModel
from labkit.timing import Trials, measure

PROMPT = "Gravity is"
NEW_TOKENS = 8
REPEATS, WARMUPS = 7, 4


@contextmanager
def spinning() -> Iterator[None]:
    """A process that does nothing but keep a core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def session(model: TextModel) -> Trials[tuple[int, ...]]:
    """One session of the condition."""
    ids = model.encode(PROMPT)
    work = {"8 out": lambda: model.generate(ids, NEW_TOKENS).ids}
    return measure(work, repeats=REPEATS, warmups=WARMUPS)


def report(name: str, trials: Trials[tuple[int, ...]]) -> None:
    """The observations and the verdict."""
    seconds = " ".join(f"{s:.3f}" for s in trials.seconds("8 out"))
    noise = trials.noise()
    print(f"{name}: {'flagged' if noise.flagged else 'not flagged'}")
    print(f"  {seconds} s")
    for reason in noise.reasons:
        print(f"  {reason}")


def main() -> None:
    """Print this machine, then both verdicts."""
    machine.wait_briefly(os.environ)
    import torch

    torch.set_num_threads(machine.default_threads())
    here = machine.identify()
    print(f"{here.cpu}, {here.cores} cores, {machine.software()}")
    model = TextModel.load()
    report("as it is", session(model))
    with spinning():
        report("beside a spinning process", session(model))


if __name__ == "__main__":
    main()
