"""The server of `soak.py`, in a process of its own.

    python bench/soak_server.py MAX_WAITING

The real stack around a random model of two layers, whose tokens are bytes.
It prints its address as a line of JSON, and for each line that comes in, one
that says how it stands. It ends with its input.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from typing import IO, Any

import psutil

from labkit.serving.app import create_app
from labkit.serving.backend import ModelBackend
from labkit.serving.chat import ChatTemplate
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.interface import Done, Event, Failed, Queued, Timeline
from labkit.serving.server import BackgroundServer

CONTEXT = 1024
MARKS = ("<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
MOST_FAULTS = 10


class Audit:
    """Counts how requests begin and end, and what never may happen."""

    def __init__(self) -> None:
        self.queued = 0
        self.ended: Counter[str] = Counter()
        self.faults: list[str] = []
        self._open: dict[int, Timeline] = {}
        self._lock = threading.Lock()

    @property
    def open(self) -> int:
        """How many requests have begun and not ended."""
        return len(self._open)

    def note(self, before: Timeline, event: Event) -> None:
        """An engine's observer; each request has a timeline of its own."""
        with self._lock:
            known = id(before) in self._open
            if known == isinstance(event, Queued):
                self._fault(event)
            elif isinstance(event, Queued):
                self.queued += 1
                self._open[id(before)] = before
            elif isinstance(event, Done | Failed):
                del self._open[id(before)]
                self.ended[_ending(event)] += 1

    def _fault(self, event: Event) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{_kind(event)} outside a request")


def _kind(event: Event) -> str:
    return type(event).__name__


def _ending(event: Done | Failed) -> str:
    """The reason of a good end, the code of another."""
    return event.reason if isinstance(event, Done) else event.refusal.code


def tiny_model() -> Any:
    """A random `Llama` of two layers over 256 bytes and two marks."""
    import torch

    from labkit.llama import Llama
    from labkit.llama_config import Config

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = Config(
        layers=2,
        query_heads=4,
        kv_heads=2,
        head_size=8,
        hidden=32,
        mlp=64,
        vocabulary=256 + len(MARKS),
        context=CONTEXT,
        rope_base=10_000.0,
        norm_eps=1e-5,
        tied=False,
    )
    shapes = config.shapes().items()
    weights = {name: 0.3 * torch.randn(shape) for name, shape in shapes}
    return Llama(config, weights)


def byte_tokenizer() -> Any:
    """Each byte is a token, so that many tokens are no whole character."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: index for index, text in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = level
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def tiny_backend() -> ModelBackend:
    """What the engine loads."""
    special = {mark: 256 + index for index, mark in enumerate(MARKS)}
    return ModelBackend(
        name="tiny",
        tokenizer=byte_tokenizer(),
        model=tiny_model(),
        end_ids=frozenset({special[MARKS[1]]}),
        chat=ChatTemplate(TEMPLATE, special),
        chunk=16,
    )


def look(engine: SingleSlotEngine, audit: Audit) -> dict[str, Any]:
    """How the server stands now."""
    process = psutil.Process()
    files = "num_handles" if sys.platform == "win32" else "num_fds"
    load = engine.load
    return {
        "queued": audit.queued,
        "ended": dict(audit.ended),
        "open": audit.open,
        "faults": audit.faults,
        "running": load.running,
        "waiting": load.waiting,
        "rss_bytes": process.memory_info().rss,
        "threads": process.num_threads(),
        "files": getattr(process, files)(),
    }


def main(max_waiting: int, lines: IO[str], out: IO[str]) -> None:
    """Serve until the lines end."""

    def say(document: dict[str, Any]) -> None:
        print(json.dumps(document), file=out, flush=True)

    audit = Audit()
    engine = SingleSlotEngine(tiny_backend, max_waiting=max_waiting)
    engine.watch(audit.note)
    engine.wait_until_ready()
    with BackgroundServer(create_app(engine)) as server:
        say({"url": server.url})
        for _ in lines:
            say(look(engine, audit))
    engine.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.stdin, sys.stdout)
