"""What six public tools print for one recorded stream, under their names.

Read in their sources in November 2026: guidellm 0.8.1 and llama-benchy
0.4.0 as released; vLLM (`vllm bench serve`), AIPerf, inference-perf and
llmperf in their repositories. They change; look before you quote. Times are
milliseconds since the request was sent. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType


@dataclass(frozen=True)
class Message:
    """One message of a stream in OpenAI's form.

    It carries `tokens` tokens and their `text`, which may be empty where a
    token is half a character. A role or a finish reason has `choices` and
    no token; a comment, or usage alone, has no choices either.
    """

    at_ms: float
    text: str = ""
    tokens: int = 0
    choices: bool = True


@dataclass(frozen=True)
class Reading:
    """What a tool makes of a stream; None for what it does not print.

    `itl_ms` holds one number for each gap that it counts, or a single one
    where it prints an average under that name.
    """

    ttft_ms: float
    tpot_ms: float | None
    itl_ms: tuple[float, ...]
    ttft: str
    tpot: str
    itl: str


def _gaps(times: Sequence[float]) -> tuple[float, ...]:
    return tuple(later - earlier for earlier, later in pairwise(times))


def _content(trace: Sequence[Message]) -> list[Message]:
    return [message for message in trace if message.text]


def _count(trace: Sequence[Message]) -> int:
    """Tokens as the server counts them, in its usage."""
    return sum(message.tokens for message in trace)


def vllm(trace: Sequence[Message]) -> Reading:
    """`vllm bench serve`: every chunk with choices counts, also the role."""
    at = [message.at_ms for message in trace if message.choices]
    n = _count(trace)
    return Reading(
        ttft_ms=at[0],
        tpot_ms=(at[-1] - at[0]) / (n - 1) if n > 1 else 0.0,
        itl_ms=_gaps(at),
        ttft="first chunk with choices",
        tpot="(last chunk with choices - TTFT) / (n - 1)",
        itl="gaps between chunks with choices",
    )


def guidellm(trace: Sequence[Message]) -> Reading:
    """guidellm: TTFT is inside of TPOT."""
    at = [message.at_ms for message in _content(trace)]
    n = _count(trace)
    return Reading(
        ttft_ms=at[0],
        tpot_ms=at[-1] / n,
        itl_ms=((at[-1] - at[0]) / (n - 1),) if n > 1 else (),
        ttft="first chunk with text",
        tpot="last / n",
        itl="(last - first) / (n - 1)",
    )


def aiperf(trace: Sequence[Message]) -> Reading:
    """AIPerf: no TPOT; its ITL is an average of one request."""
    at = [message.at_ms for message in _content(trace)]
    n = _count(trace)
    return Reading(
        ttft_ms=at[0],
        tpot_ms=None,
        itl_ms=((at[-1] - at[0]) / (n - 1),) if n > 1 else (),
        ttft="first chunk with text",
        tpot="none",
        itl="(last - first) / (n - 1)",
    )


def inference_perf(trace: Sequence[Message]) -> Reading:
    """inference-perf: all tokens of a chunk arrive at once, gaps of 0."""
    at = [c.at_ms for c in _content(trace) for _ in range(max(c.tokens, 1))]
    return Reading(
        ttft_ms=at[0],
        tpot_ms=(at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else None,
        itl_ms=_gaps(at),
        ttft="first chunk with text",
        tpot="(last - first) / (n - 1)",
        itl="gaps between tokens, 0 within a chunk",
    )


def llmperf(trace: Sequence[Message]) -> Reading:
    """llmperf: TTFT is the first of the gaps, and a chunk is a token."""
    at = [message.at_ms for message in _content(trace)]
    return Reading(
        ttft_ms=at[0],
        tpot_ms=None,
        itl_ms=(at[-1] / len(at),),
        ttft="first chunk with text",
        tpot="none",
        itl="(TTFT + gaps) / chunks",
    )


def llama_benchy(trace: Sequence[Message]) -> Reading:
    """llama-benchy: prints a rate, whose inverse stands here as TPOT.

    It also prints the first response, which counts a role. Its list of gaps
    spreads the tokens evenly between the first and the last chunk.
    """
    at = [message.at_ms for message in _content(trace)]
    n = _count(trace)
    each = (at[-1] - at[0]) / (n - 1) if n > 1 else None
    return Reading(
        ttft_ms=at[0],
        tpot_ms=each,
        itl_ms=() if each is None else (each,) * (n - 1),
        ttft="first chunk with text",
        tpot="1 / rate, (last - first) / (n - 1)",
        itl="spread evenly",
    )


TOOLS: Mapping[str, Callable[[Sequence[Message]], Reading]] = MappingProxyType(
    {
        "vLLM bench serve": vllm,
        "guidellm": guidellm,
        "AIPerf": aiperf,
        "inference-perf": inference_perf,
        "llmperf": llmperf,
        "llama-benchy": llama_benchy,
    }
)
"""By the tool's name. Each takes a trace with at least one chunk of text."""
