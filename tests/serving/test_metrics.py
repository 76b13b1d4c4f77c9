"""What GET /metrics says of requests whose times are known."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from labkit.generation import Token
from labkit.serving.interface import (
    Done,
    Event,
    Failed,
    Load,
    Observer,
    Queued,
    Started,
    Timeline,
)
from labkit.serving.metrics import Metrics
from labkit.serving.protocol import Refusal

TIMEOUT_S = 10
MS = 1_000_000


class Watched:
    """An engine of which only its load and its observers matter."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.load = Load(running=1, waiting=7)

    def watch(self, observer: Observer) -> None:
        self.observers.append(observer)

    def play(self, events: list[Event], prompt_tokens: int = 5) -> None:
        timeline = Timeline(prompt_tokens, events[0].time_ns)
        for event in events:
            for observer in self.observers:
                observer(timeline, event)
            timeline.add(event)


def samples(text: str) -> dict[str, float]:
    """Values by name and labels, those of buckets left out."""
    return {
        " ".join([s.name.removeprefix("labkit:"), *s.labels.values()]): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if "le" not in s.labels and not s.name.endswith("_created")
    }


def test_the_times_of_requests() -> None:
    engine: Any = Watched()
    metrics = Metrics(engine)
    start = [Queued(0, 0), Started(10 * MS, 0), Token(1, 50 * MS)]
    more = [Token(2, 60 * MS), Token(3, 80 * MS)]
    engine.play([*start, *more, Done(81 * MS, "length")])
    engine.play([*start, Failed(70 * MS, Refusal(499, "cancelled", "Off."))])
    metrics.refused("queue_full")
    found = samples(metrics.text().decode())
    expected = {
        "num_requests_running": 1,
        "num_requests_waiting": 7,
        "prompt_tokens_total": 10,
        "generation_tokens_total": 4,
        "request_success_total length": 1,
        "request_failure_total cancelled": 1,
        "request_refused_total queue_full": 1,
        "time_to_first_token_seconds_count": 2,
        "time_to_first_token_seconds_sum": 0.1,
        "inter_token_latency_seconds_count": 2,
        "inter_token_latency_seconds_sum": 0.03,
        "request_queue_time_seconds_sum": 0.02,
        "request_prefill_time_seconds_sum": 0.08,
        "request_decode_time_seconds_count": 1,
        "request_decode_time_seconds_sum": 0.03,
        "e2e_request_latency_seconds_count": 1,
        "e2e_request_latency_seconds_sum": 0.081,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name


def test_the_route(url: str) -> None:
    asked = {"prompt": "ab", "max_new_tokens": 3}
    requests.post(url + "/generate", json=asked, timeout=TIMEOUT_S)
    requests.post(url + "/stream", json=asked, timeout=TIMEOUT_S)
    requests.post(url + "/stream", json={}, timeout=TIMEOUT_S)
    answer = requests.get(url + "/metrics", timeout=TIMEOUT_S)
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found = samples(answer.text)
    assert found["generation_tokens_total"] == 6
    assert found["prompt_tokens_total"] == 4
    assert found["request_refused_total missing_max_new_tokens"] == 1
