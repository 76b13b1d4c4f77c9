"""What six tools make of one trace, worked out by hand."""

from __future__ import annotations

import pytest

from labkit.loadtest.definitions import TOOLS, Message

TRACE = (
    Message(5),  # a role
    Message(60, choices=False),  # a comment
    Message(205, " A", 1),
    Message(225, " lever", 1),
    Message(285, " moves what a", 3),
    Message(305, " hand", 1),
    Message(430),  # a finish reason
    Message(500, choices=False),  # usage
)
"""Six tokens in four chunks."""


@pytest.mark.parametrize(
    ("tool", "ttft", "tpot", "itl"),
    [
        ("vLLM bench serve", 5, 85.0, (200, 20, 60, 20, 125)),
        ("guidellm", 205, 305 / 6, (20.0,)),
        ("AIPerf", 205, None, (20.0,)),
        ("inference-perf", 205, 20.0, (20, 60, 0, 0, 20)),
        ("llmperf", 205, None, (305 / 4,)),
        ("llama-benchy", 205, 20.0, (20.0,) * 5),
    ],
)
def test_one_trace_under_six_definitions(
    tool: str, ttft: float, tpot: float | None, itl: tuple[float, ...]
) -> None:
    reading = TOOLS[tool](TRACE)
    assert (reading.ttft_ms, reading.tpot_ms) == (ttft, tpot)
    assert reading.itl_ms == pytest.approx(itl)


def test_one_token_and_a_token_without_text() -> None:
    one = (Message(50, "a", 1),)
    assert TOOLS["vLLM bench serve"](one).tpot_ms == 0.0
    for tool in ("guidellm", "AIPerf", "inference-perf", "llama-benchy"):
        assert TOOLS[tool](one).itl_ms == ()
    half = (Message(50, "", 1), Message(70, "é", 1), Message(90, "", 1))
    assert TOOLS["vLLM bench serve"](half).ttft_ms == 50
    assert TOOLS["AIPerf"](half).ttft_ms == 70


def test_each_tool_says_what_it_computes() -> None:
    for tool in TOOLS.values():
        reading = tool(TRACE)
        assert all((reading.ttft, reading.tpot, reading.itl))
