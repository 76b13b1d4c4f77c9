"""Counters, gauges and histograms of an engine, as Prometheus reads them.

Where one means the same as vLLM's, it has that one's name with another
prefix. Seconds are of the engine's own clock; the wire is not in them.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from labkit.generation import Token
from labkit.serving.interface import (
    Done,
    Engine,
    Event,
    Failed,
    Queued,
    Started,
    Timeline,
)

PREFIX = "labkit:"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STEP_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04),
    *(0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5),
)
"""Bounds in seconds for what happens once a token."""
REQUEST_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0),
    *(5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0),
)
"""Bounds in seconds for what happens once a request."""


class Metrics:
    """What `GET /metrics` shows of one engine, in a registry of its own."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        running = self._gauge("num_requests_running", "Requests in work.")
        running.set_function(lambda: engine.load.running)
        waiting = self._gauge("num_requests_waiting", "Requests in line.")
        waiting.set_function(lambda: engine.load.waiting)
        self._prompt = self._counter(
            "prompt_tokens", "Prompt tokens of requests whose prefill is over."
        )
        self._new = self._counter("generation_tokens", "Tokens generated.")
        self._success = self._counter(
            "request_success", "Requests that ended well.", "finished_reason"
        )
        self._failure = self._counter(
            "request_failure", "Accepted requests that failed.", "code"
        )
        self._refused = self._counter(
            "request_refused", "Requests that were not accepted.", "code"
        )
        self._queue = self._histogram(
            "request_queue_time_seconds", "Queued to start.", REQUEST_BUCKETS
        )
        self._prefill = self._histogram(
            "request_prefill_time_seconds",
            "Start to first token.",
            REQUEST_BUCKETS,
        )
        self._decode = self._histogram(
            "request_decode_time_seconds",
            "First to last token.",
            REQUEST_BUCKETS,
        )
        self._ttft = self._histogram(
            "time_to_first_token_seconds",
            "Queued to first token.",
            REQUEST_BUCKETS,
        )
        self._itl = self._histogram(
            "inter_token_latency_seconds",
            "One token to the next.",
            STEP_BUCKETS,
        )
        self._e2e = self._histogram(
            "e2e_request_latency_seconds",
            "Queued to end, of requests that ended well.",
            REQUEST_BUCKETS,
        )
        engine.watch(self._note)

    def refused(self, code: str) -> None:
        """Count a request that never reached the engine."""
        self._refused.labels(code).inc()

    def text(self) -> bytes:
        """All of it, in Prometheus' text format 0.0.4."""
        return generate_latest(self.registry)

    def _note(self, before: Timeline, event: Event) -> None:
        if isinstance(event, Token):
            self._note_token(before, event)
        elif isinstance(event, Started):
            self._queue.observe((event.time_ns - before.queued_ns) / 1e9)
        elif isinstance(event, Done):
            self._note_done(before, event)
        elif isinstance(event, Failed):
            self._failure.labels(event.refusal.code).inc()
        else:
            assert isinstance(event, Queued)

    def _note_token(self, before: Timeline, token: Token) -> None:
        self._new.inc()
        if before.last_ns is not None:
            self._itl.observe((token.time_ns - before.last_ns) / 1e9)
            return
        assert before.started_ns is not None
        self._prompt.inc(before.prompt_tokens)
        self._ttft.observe((token.time_ns - before.queued_ns) / 1e9)
        self._prefill.observe((token.time_ns - before.started_ns) / 1e9)

    def _note_done(self, before: Timeline, done: Done) -> None:
        self._success.labels(done.reason).inc()
        self._e2e.observe((done.time_ns - before.queued_ns) / 1e9)
        if before.first_ns is not None and before.last_ns is not None:
            self._decode.observe((before.last_ns - before.first_ns) / 1e9)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(PREFIX + name, says, registry=self.registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, says, labels, registry=self.registry)

    def _histogram(
        self, name: str, says: str, buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(
            PREFIX + name, says, registry=self.registry, buckets=buckets
        )
