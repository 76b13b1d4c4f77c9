"""The report of a load test as tables and as one page for a browser."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

from labkit import tables
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.records import FAILURES
from labkit.loadtest.report import METRICS

Rows = list[list[str]]
NAMES: Mapping[str, str] = {
    "ttft_ms": "TTFT",
    "ttft_from_schedule_ms": "TTFT from schedule",
    "e2e_ms": "E2E",
    "queue_ms": "queue (server's clock)",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "inter_chunk_ms": "inter-chunk",
}
NOTE = (
    "Times in ms. Percentiles interpolate linearly (NumPy's linear); p99 is"
    " left out under 100 values. Latencies are those of requests that"
    " succeeded; beside each stands the rate of those that failed. Steady:"
    " without the first requests of a closed loop, which are released at"
    " once. Rates divide by the sum of the windows of all segments."
)


def overview(
    made: Mapping[str, Any], group: str = "all", *, judged: bool = True
) -> Rows:
    """A row for each configuration; `group` is all or steady.

    Goodput says something only where requests are `judged`.
    """
    head = ["configuration", "requests", "failed", "TTFT p50", "TTFT max"]
    head += ["TPOT p50", "E2E p50", "queue p50", "tokens/s", "goodput/s"]
    rows = [[*head, "in flight", "peak RSS MiB"]]
    for name, part in made["configurations"].items():
        of = part[group]
        flight = part["server_in_flight"]["mean"]
        if flight is None:
            flight = part["client_in_flight"]["mean"]
        rss = part["peak_rss_bytes"]
        row = [name, str(of["requests"]), percent(of["failure_rate"])]
        row += [number(of["ttft_ms"]["p50"]), number(of["ttft_ms"]["maximum"])]
        row += [number(of[m]["p50"]) for m in ("tpot_ms", "e2e_ms")]
        row += [number(of["queue_ms"]["p50"])]
        row += [number(of["output_tokens_per_s"], 2)]
        good = of["goodput_per_s"] if judged else None
        row += [number(good, 2), number(flight, 2)]
        rows.append([*row, number(rss and rss / 2**20)])
    return rows


def latencies(of: Mapping[str, Any]) -> Rows:
    """A row for each metric of one group, with the failure rate beside."""
    rows = [["ms", "n", "mean", "p50", "p90", "p95", "p99", "max", "failed"]]
    for metric in METRICS:
        seen = of[metric]
        if seen["count"]:
            names = ("mean", "p50", "p90", "p95", "p99", "maximum")
            cells = [number(seen[name]) for name in names]
            row = [NAMES[metric], str(seen["count"]), *cells]
            rows.append([*row, percent(of["failure_rate"])])
    return rows


def remarks(found: Evidence, made: Mapping[str, Any]) -> list[str]:
    """One sentence for each thing that a reader must know."""
    said = [] if found.complete else ["PARTIAL: the run was not finished."]
    if made["segments"] > 1:
        said.append(
            f"The run was made in {made['segments']} segments, each with a"
            " clock of its own."
        )
    for name, part in made["configurations"].items():
        for code, count in part["all"]["failures"].items():
            said.append(f"{name}: {count} x {code}: {meaning(code)}.")
        if part["asked_per_s"] is not None:
            said.append(
                f"{name}: asked for {number(part['asked_per_s'], 3)} requests"
                f"/s, sent {number(part['achieved_per_s'], 3)}."
            )
        if part["client_stalled"]:
            said.append(
                f"{name}: the client itself was held up for up to"
                f" {number(part['client_lag_ms'])} ms; what it saw late is"
                " not the server's."
            )
        said += _unusual(found, name)
    return said


def _unusual(found: Evidence, name: str) -> list[str]:
    """What the records of a configuration show that is no failure."""
    from labkit.loadtest import metrics

    said = []
    records = [r for each in found.segments(name) for r in each if r.ok]
    asked = {p.request: p for p in found.plan.requests}
    bursts = sum(metrics.streamed(record) is False for record in records)
    if bursts:
        said.append(
            f"{name}: {bursts} answers came in one burst: not streamed, so"
            " that TTFT and ITL say nothing of the server."
        )
    others = sum(
        r.prompt_tokens not in (None, len(asked[r.request].prompt_ids))
        for r in records
    )
    if others:
        said.append(
            f"{name}: the server counted other prompt tokens than were sent"
            f" in {others} requests."
        )
    short = sum(
        (metrics.token_count(r) or 0) < asked[r.request].new_tokens
        for r in records
    )
    if short:
        said.append(
            f"{name}: {short} answers have fewer tokens than were asked for."
        )
    return said


def _judged(found: Evidence) -> bool:
    """Whether there are objectives."""
    return any(vars(found.plan.objectives).values())


def as_text(found: Evidence, made: Mapping[str, Any]) -> str:
    """The whole report for a terminal."""
    parts = [tables.as_text(overview(made, judged=_judged(found)))]
    for name, part in made["configurations"].items():
        if len(made["configurations"]) == 1 and part["all"]["requests"]:
            parts.append(tables.as_text(latencies(part["all"])))
            steady = part["steady"]
            if steady["requests"] not in (0, part["all"]["requests"]):
                parts.append(
                    f"Steady: {name} without its first requests\n"
                    + tables.as_text(latencies(steady))
                )
    parts += ["\n".join(remarks(found, made)), NOTE]
    return "\n\n".join(part for part in parts if part)


def as_page(
    found: Evidence,
    made: Mapping[str, Any],
    pictures: Sequence[tuple[bytes, str, str]],
) -> str:
    """One page that needs nothing else; pictures are PNG, caption, alt."""
    rows = overview(made, judged=_judged(found))
    body = ["<h1>Load test</h1>", tables.as_html(rows)]
    body += [f"<p>{html.escape(line)}</p>" for line in remarks(found, made)]
    for png, caption, alt in pictures:
        source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        body.append(
            f'<figure><img src="{source}" alt="{html.escape(alt)}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
    for name, part in made["configurations"].items():
        for group in ("all", "steady"):
            body.append(f"<h2>{html.escape(name)}: {group}</h2>")
            body.append(tables.as_html(latencies(part[group])))
    body.append(f"<p>{html.escape(NOTE)}</p>")
    head = '<meta charset="utf-8"><title>Load test</title>' + STYLE
    page = "\n".join(body)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n' + (
        f"<body>\n{page}\n</body></html>\n"
    )


STYLE = (
    "<style>body{font-family:sans-serif;max-width:60em;margin:auto;"
    "padding:1em}table{border-collapse:collapse;font-size:90%}"
    "th,td{padding:.2em .6em;border-bottom:1px solid #ccc}"
    "img{max-width:100%}</style>"
)


def number(value: float | None, digits: int = 1) -> str:
    """A figure for people; what is undefined is a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """A share for people."""
    return "-" if share is None else f"{100 * share:.1f}%"


def meaning(code: str) -> str:
    """What a code of failure means."""
    general = "http_NNN" if code.startswith("http_") else code
    return FAILURES.get(general, "an unknown failure")
