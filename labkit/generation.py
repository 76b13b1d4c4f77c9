"""Token ids in, token ids out: prefill, decode, and when each token came.

torch is loaded when something is generated, not with this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Protocol

from labkit.errors import LabError
from labkit.kv_cache import PreallocatedCache, require_capacity

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from labkit.kv_cache import KVCache
    from labkit.llama_config import Config

Clock = Callable[[], int]
"""Nanoseconds of one clock that only goes forward."""


class Model(Protocol):
    """A model that fills a cache: `Llama`, or `library.LibraryModel`."""

    @property
    def config(self) -> Config:
        """The sizes of the model."""

    @property
    def dtype(self) -> torch.dtype:
        """The format that it computes in, and that its cache holds."""

    def __call__(
        self, ids: Tensor, cache: KVCache, *, last_only: bool = False
    ) -> Tensor:
        """Logits after each of [batch, new] ids, or after the last."""


@dataclass(frozen=True)
class Generation:
    """What one call produced, and when; times are of one clock, in ns.

    `token_ns` says when each token was known; it is None where they came
    all at once.
    """

    ids: tuple[int, ...]
    prompt_tokens: int
    start_ns: int
    end_ns: int
    token_ns: tuple[int, ...] | None = None

    @property
    def seconds(self) -> float:
        """The whole call and nothing else: prefill and every decode step."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def tokens_per_second(self) -> float:
        """New tokens over the whole time of the call, prefill included."""
        return len(self.ids) / self.seconds

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token: the prefill."""
        if not self.token_ns:
            return None
        return (self.token_ns[0] - self.start_ns) / 1e9

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Seconds between neighbouring tokens: n - 1 gaps."""
        stamps = self.token_ns or ()
        return tuple(
            (later - sooner) / 1e9 for sooner, later in pairwise(stamps)
        )

    @property
    def tpot_s(self) -> float | None:
        """(last - first token) / (n - 1) in seconds; None for one token."""
        gaps = self.itl_s
        return sum(gaps) / len(gaps) if gaps else None


@dataclass(frozen=True)
class Token:
    """One new token id, and when it was known (ns)."""

    id: int
    time_ns: int


@dataclass(frozen=True)
class Sampling:
    """How to draw a token; the same seed draws the same again.

    Logits are divided by `temperature`; then only the `top_k` best stay (0:
    all), and of those the fewest whose probabilities reach `top_p`. Raises
    LabError for values outside of their range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise LabError(
                "Give a temperature above 0; for greedy decoding leave "
                "sampling out."
            )
        whole = all(type(n) is int for n in (self.top_k, self.seed))
        if not whole or self.top_k < 0 or not -(2**63) <= self.seed < 2**63:
            raise LabError(
                "Give a top_k of 0 or more and a seed of at most 64 bits, "
                "both whole numbers."
            )
        if not 0 < self.top_p <= 1:
            raise LabError("Give a top_p above 0 and at most 1.")


def prefill(
    model: Model,
    prompt_ids: Sequence[int],
    cache: KVCache,
    chunk: int | None = None,
) -> Tensor:
    """Run the prompt through the model; logits of the next token.

    Keys and values go into `cache`, after what it holds. `chunk` is the
    most tokens at once (default: all). Result: [vocabulary]. LabError for
    an empty prompt.
    """
    import torch

    if not prompt_ids or (chunk is not None and chunk < 1):
        raise LabError("Give at least one prompt token, in chunks of one up.")
    require_ids(prompt_ids, model.config.vocabulary)
    require_capacity(cache, len(prompt_ids))
    size = chunk or len(prompt_ids)
    with torch.inference_mode():
        for start in range(0, len(prompt_ids), size):
            part = torch.tensor([list(prompt_ids[start : start + size])])
            logits = model(part, cache, last_only=True)
    return logits[0, -1]


def decode(model: Model, token_id: int, cache: KVCache) -> Tensor:
    """One step: the token goes in, logits [vocabulary] of the next come out.

    The token's keys and values go into `cache`.
    """
    return prefill(model, [token_id], cache)


def greedy(logits: Tensor, never: Collection[int] = ()) -> int:
    """The id with the largest logit, the first one of equals.

    Ids in `never` are not chosen. LabError when that leaves none, or when a
    logit is not a number.
    """
    return int(_allowed(logits, never).argmax())


def draw(
    logits: Tensor,
    sampling: Sampling,
    generator: torch.Generator,
    never: Collection[int] = (),
) -> int:
    """A random id by its probability, as `sampling` shapes it."""
    import torch

    allowed = _allowed(logits, never).double()
    scaled = (allowed - allowed.max()) / sampling.temperature
    order = scaled.argsort(descending=True, stable=True)
    if sampling.top_k:
        order = order[: sampling.top_k]
    chances = scaled[order].softmax(dim=0)
    # An id stays while those before it do not reach top_p: at least one.
    before = chances.cumsum(dim=0) - chances
    kept = chances.masked_fill(before >= sampling.top_p, 0)
    return int(order[torch.multinomial(kept, 1, generator=generator)])


def _allowed(logits: Tensor, never: Collection[int]) -> Tensor:
    """Logits with -inf for `never`; LabError where no best one is left."""
    if never:
        logits = logits.clone()
        logits[list(never)] = float("-inf")
    if not logits.max().isfinite():
        raise LabError(
            "No token can be chosen: a logit is not a finite number, or all "
            "ids are forbidden."
        )
    return logits


def _chooser(
    sampling: Sampling | None, never: Collection[int]
) -> Callable[[Tensor], int]:
    import torch

    if sampling is None:
        return lambda logits: greedy(logits, never)
    generator = torch.Generator().manual_seed(sampling.seed)
    return lambda logits: draw(logits, sampling, generator, never)


def stream(  # noqa: PLR0913 - each is one choice, given by name
    model: Model,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    *,
    cache: KVCache | None = None,
    sampling: Sampling | None = None,
    stop: Collection[int] = (),
    never: Collection[int] = (),
    clock: Clock = time.perf_counter_ns,
) -> Iterator[Token]:
    """Continue a prompt, and give each token as soon as it is known.

    Greedy, unless `sampling` says how to draw. An id in `stop` ends it and
    is its last token; one in `never` is not chosen. The last token is not
    in the cache: whoever goes on with it begins with that one. For exactly
    `max_new_tokens` tokens give the end ids as `never` (that is how the
    library's `min_new_tokens` does it). `prompt_ids` come after what
    `cache` holds; without one, an empty cache of the right size is made.
    LabError, before anything is computed, when nothing is asked or it does
    not fit the context.
    """
    held = 0 if cache is None else cache.length
    require_room(model.config.context, held, prompt_ids, max_new_tokens)
    require_ids(never, model.config.vocabulary)
    new = len(prompt_ids) + max_new_tokens - 1
    if cache is None:
        cache = PreallocatedCache(model.config, new, dtype=model.dtype)
    require_capacity(cache, new)
    steps = _steps(model, prompt_ids, cache, _chooser(sampling, never))
    return _until(steps, max_new_tokens, stop, clock)


def _steps(
    model: Model,
    prompt_ids: Sequence[int],
    cache: KVCache,
    choose: Callable[[Tensor], int],
) -> Iterator[int]:
    """Token ids without end; each is computed when it is asked for."""
    logits = prefill(model, prompt_ids, cache)
    while True:
        token = choose(logits)
        yield token
        logits = decode(model, token, cache)


def _until(
    steps: Iterator[int], count: int, stop: Collection[int], clock: Clock
) -> Iterator[Token]:
    for token in islice(steps, count):
        yield Token(token, clock())
        if token in stop:
            return


def generate(  # noqa: PLR0913 - the arguments of `stream`
    model: Model,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    *,
    cache: KVCache | None = None,
    sampling: Sampling | None = None,
    stop: Collection[int] = (),
    never: Collection[int] = (),
    clock: Clock = time.perf_counter_ns,
) -> Generation:
    """All tokens of `stream`, with the time of each.

    The clock starts before the cache is made.
    """
    start = clock()
    tokens = list(
        stream(
            model,
            prompt_ids,
            max_new_tokens,
            cache=cache,
            sampling=sampling,
            stop=stop,
            never=never,
            clock=clock,
        )
    )
    return Generation(
        ids=tuple(token.id for token in tokens),
        prompt_tokens=len(prompt_ids),
        start_ns=start,
        end_ns=clock(),
        token_ns=tuple(token.time_ns for token in tokens),
    )


def require_room(
    context: int, held: int, prompt_ids: Sequence[int], new: int
) -> None:
    """LabError when nothing is asked, or more than `context` positions."""
    if not prompt_ids or new < 1:
        raise LabError("Give at least one prompt token and ask for one more.")
    if held + len(prompt_ids) + new > context:
        before = f"{held} cached tokens, " if held else ""
        raise LabError(
            f"{before}{len(prompt_ids)} prompt tokens and {new} new ones do "
            f"not fit a context of {context}: ask for fewer."
        )


def require_ids(ids: Collection[int], vocabulary: int) -> None:
    """LabError for an id that is no token of the vocabulary."""
    wrong = [i for i in ids if not 0 <= i < vocabulary]
    if wrong:
        raise LabError(
            f"{wrong[0]} is no token id: there are {vocabulary}, from 0 on."
        )
