"""Check evidence, as docs/evidence.md says: python3.11 verify.py FOLDER

Status: 0 complete and right, 1 something differs, 2 no evidence, 3 partial.
"""

import json
import math
import sys
from collections import Counter
from hashlib import sha256
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

EVIDENCE = ("environment.json", "requests.jsonl", "events.jsonl", "rss.jsonl")
FILES = (*EVIDENCE, "report.json")
Fields = dict[str, Any]
COMPLETE, DIFFERS, UNREADABLE, PARTIAL = range(4)


def need(holds: object, where: str, law: str) -> None:
    """ValueError, which ends the check, unless a law holds."""
    if not holds:
        raise ValueError(f"{where}: {law}.")


def parse(data: bytes, where: str) -> Fields:
    """The JSON object in some bytes."""
    try:
        return dict(json.loads(data))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{where} is no JSON object: {error}.") from error


class Evidence:
    """The files of a folder, and in `found` what differs."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / name for name in (*FILES, "manifest.json")]
        self.found: list[str] = []
        self.shifts: dict[Any, int] = {}

    def check(self) -> tuple[bool, int]:
        """Whether the run was finished, and how many requests there are."""
        # A link, a device or a folder by such a name is no evidence.
        plain = [p for p in self.paths if p.is_file() and not p.is_symlink()]
        read = [path for path in plain if path.stat().st_size <= 2**30]
        self.files = {path.name: path.read_bytes() for path in read}
        if not self.files:
            raise FileNotFoundError("this is no folder of a load test")
        for name in ("manifest.json", *EVIDENCE):
            need(name in self.files, name, "it is missing, or over 1 GiB")
        complete = self.check_manifest()
        plan = parse(self.files["environment.json"], "environment.json")
        known = (plan["schema"], plan["version"]) == ("labkit.evidence", 1)
        need(known, "environment.json", "it has another schema")
        self.planned = {r["request"]: r for r in plan["requests"]}
        self.vocabulary = plan["vocabulary"] or math.inf
        rows, events, samples = map(self.lines, EVIDENCE[1:])
        others = {"requests.jsonl": rows, "rss.jsonl": samples}
        traces, ends = self.traces(events, others)
        ended = ends[-1:] == ["complete"] or not complete
        need(ended, "events.jsonl", "its end is not the run's")
        records = [self.join(row, traces) for row in rows]
        for segment, name in traces:
            law = f"events of {name} without a line in requests.jsonl"
            need(ends[segment - 1] != "complete", "events.jsonl", law)
        counts = Counter(r["request"] for r in records)
        for name, r in self.planned.items():
            law = f"{name} is there {counts[name]} times"
            fits = r["phase"] == "warmup" or counts[name] <= 1
            need(fits and counts[name] >= complete, "requests.jsonl", law)
        if complete or "report.json" in self.files:
            given = parse(self.files["report.json"], "report.json")
            right = report(plan, records, samples, len(ends))
            self.same("report.json", given, right)
        return complete, len(records)

    def same(self, where: str, value: Any, want: Any) -> None:
        """Note what differs; bytes, which JSON lacks, stand for missing."""
        if isinstance(value, dict) and isinstance(want, dict):
            for name in dict.fromkeys((*want, *value)):
                inner = value.get(name, b"missing"), want.get(name, b"missing")
                self.same(f"{where}: {name:.60}", *inner)
        elif type(value) is not type(want) or value != want:
            law = f"found {value!r:.70}, expected {want!r:.70}"
            self.found.append(f"{where}: {law}.")

    def check_manifest(self) -> bool:
        """Whether the run was finished; the hashes are compared."""
        given = parse(self.files["manifest.json"], "manifest.json")
        complete = given.get("state") == "complete"
        names = FILES if complete else EVIDENCE[:1]
        sums = {n: sha256(self.files.get(n, b"")).hexdigest() for n in names}
        right = {"schema": "labkit.manifest", "version": 1, "sha256": sums}
        right["state"] = "complete" if complete else "partial"
        self.same("manifest.json", given, right)
        return complete

    def lines(self, name: str) -> list[Fields]:
        """The whole lines of a file, each linked to the one before."""
        found, start = [], self.files["environment.json"] + name.encode()
        chain = sha256(start).hexdigest()[:16]
        for number, row in enumerate(self.files[name].split(b"\n")[:-1], 1):
            where = f"{name} line {number}"
            body, _, end = row.rpartition(b',"chain":"')
            chain = sha256(chain.encode() + body).hexdigest()[:16]
            law = "it was changed, or does not follow from the line before"
            need(end == f'{chain}"}}'.encode(), where, law)
            found.append(parse(body + b"}", where) | {"where": where})
        return found

    def traces(self, events: Any, others: Any) -> tuple[Any, list[str]]:
        """Events by (segment, request), and how each segment ended."""
        found: dict[Any, list[Fields]] = {}
        ends: list[str] = []
        for event in events:
            ends += ["killed"] * (event["kind"] == "segment_start")
            fits = event["segment"] == len(ends) and ends[-1] == "killed"
            need(fits, event["where"], "it is not inside its segment")
            if event["kind"] == "segment_end":
                ends[-1], law = event["reason"], "other files lack lines"
                for name, rows in others.items():
                    lines = sum(row["segment"] <= len(ends) for row in rows)
                    need(lines == event["lines"][name], event["where"], law)
            elif "request" in event:
                key = event["segment"], event["request"]
                found.setdefault(key, []).append(event)
        return found, ends

    def join(self, row: Fields, traces: Any) -> Fields:
        """A request with its plan and events; the laws of one are checked."""
        where, name = row.pop("where"), row["request"]
        need(name in self.planned, where, f"{name!r:.30} is not planned")
        trace = traces.pop((row["segment"], name), None)
        fits = trace and trace[0]["kind"] == "sent"
        need(fits, where, "its events have no beginning, or it is here twice")
        sent, *events = trace
        r: Fields = row | self.planned[name] | {"ok": row["failure"] is None}
        prompt = ",".join(map(str, r["prompt_ids"])).encode()
        right = {"sent_ns": sent["time_ns"], "arrivals": len(events)}
        right["prompt_sha256"] = sha256(prompt).hexdigest()
        self.same(where, {name: row[name] for name in right}, right)
        seen = [r["due_ns"], r["sent_ns"], r["connected_ns"]]
        seen += [event["time_ns"] for event in events] + [r["end_ns"]]
        made = [r["queued_ns"], *(event["server_ns"] for event in events)]
        due, planned = r["due_ns"], r["offset_ns"]
        key = r["segment"], r["configuration"], planned is None, due is None
        shift = self.shifts.setdefault(key, (due or 0) - (planned or 0))
        fits = key[2] == key[3] and shift == (due or 0) - (planned or 0)
        need(fits, where, "its due_ns is not the plan's")
        for times in (seen, made) if r["ok"] else (seen,):
            known = [time for time in times if time is not None]
            need(known == sorted(known), where, "its times are out of order")
        tokens = [event for event in events if event["kind"] == "token"]
        ids = [i for each in tokens for i in each["ids"]] if r["ok"] else []
        fits = all(0 <= i < self.vocabulary for i in [*r["prompt_ids"], *ids])
        need(fits, where, "an id is outside the vocabulary")
        done = [each for each in events if each["kind"] == "done"]
        r["served_ns"] = done[-1]["server_ns"] if done else None
        moments = groupby(tokens, lambda each: each["time_ns"])
        r["chunks"] = [(t, sum(e["tokens"] for e in es)) for t, es in moments]
        came, n = sum(count for _, count in r["chunks"]), row["new_tokens"]
        r["count"], r["known"] = (came, True) if n is None else (n, n == came)
        whole = came and done and (r["known"] or r["counted"] != "ids")
        need(whole or not r["ok"], where, "its answer is not whole")
        return r


def report(plan: Fields, records: Any, samples: Any, segments: int) -> Fields:
    """What report.json must hold."""
    counted = [r for r in records if r["phase"] == "measured"]
    parts: Fields = {}
    counted.sort(key=lambda r: (r["segment"], r["sent_ns"]))
    for asked in plan["configurations"]:
        name = asked["name"]
        mine = [r for r in counted if r["configuration"] == name]
        runs = [[*run] for _, run in groupby(mine, lambda r: r["segment"])]
        span = sum(run[-1]["sent_ns"] - run[0]["sent_ns"] for run in runs)
        burst = asked["clients"] if (asked["clients"] or 0) > 1 else 0
        seen = [s for s in samples if s["configuration"] == name]
        lag = max((s["lag_ns"] for s in seen), default=0) / 1e6
        rss = [s["rss_bytes"] for s in seen if s["rss_bytes"] is not None]
        rate, due = asked["rate_per_s"], [r["offset_ns"] for r in mine]
        if asked["arrivals"] == "recorded":
            rate = over(len(due) - 1, (max(due) - min(due)) / 1e9)
        found = parts[name] = {"asked_per_s": rate, "client_lag_ms": lag}
        found["client_stalled"] = lag > plan["stall_ms"]
        found["peak_rss_bytes"] = max(rss, default=None)
        found["achieved_per_s"] = over(len(mine) - len(runs), span / 1e9)
        found["server_in_flight"] = in_flight(runs, "queued_ns", "served_ns")
        found["client_in_flight"] = in_flight(runs, "sent_ns", "end_ns")
        found["all"] = group(runs, plan["objectives"])
        found["steady"] = group([r[burst:] for r in runs], plan["objectives"])
    found = {"schema": "labkit.report", "version": 1, "configurations": parts}
    found |= {"warmups": len(records) - len(counted), "segments": segments}
    return found | {"requests": len(counted), "percentile": "linear"}


def over(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def in_flight(runs: list[list[Fields]], start: str, end: str) -> Fields:
    """Requests in a system: mean by time integral, and peak."""
    area = time = peak = count = 0
    for run in runs:
        spans = [(r[start], r[end]) for r in run]
        spans = [span for span in spans if None not in span]
        steps = sorted(step for a, b in spans for step in ((a, 1), (b, -1)))
        for (moment, change), (after, _) in pairwise([*steps, *steps[-1:]]):
            count, time = count + change, time + after - moment
            area, peak = area + count * (after - moment), max(peak, count)
    return {"mean": over(area, time), "peak": peak}


def group(runs: list[list[Fields]], objectives: Fields) -> Fields:
    """What is said of some requests, given by segment."""
    records = [r for run in runs for r in run]
    ok, count, widths = [r for r in records if r["ok"]], len(records), []
    for run in runs:
        lasts = [r["chunks"][-1][0] for r in run if r["ok"]]
        widths += [(max(lasts) - run[0]["sent_ns"]) / 1e9] if lasts else []
    window, tokens = math.fsum(widths), sum(r["count"] for r in ok)
    bounds = [(name, b) for name, b in objectives.items() if b is not None]
    met, bad = 0, count - len(ok)
    for r in ok:  # undefined is missed, but TPOT of one token is not judged
        seen = metrics([r])
        seen["tpot_ms"] += [-math.inf] * (r["count"] == 1)
        met += all((seen[name] or [math.inf])[0] <= b for name, b in bounds)
    failed = Counter(r["failure"] for r in records if not r["ok"])
    found = {"requests": count, "failed": bad, "failures": failed}
    found |= {"failure_rate": over(bad, count), "share_met": over(met, count)}
    found |= {"met": met, "output_tokens": tokens, "window_s": window or None}
    rates = {"output_tokens": tokens, "requests": len(ok), "goodput": met}
    found |= {f"{name}_per_s": over(n, window) for name, n in rates.items()}
    return found | {n: summary(values) for n, values in metrics(ok).items()}


def metrics(records: list[Fields]) -> dict[str, list[float]]:
    """Every metric of requests that succeeded, in ms, pooled."""
    names = "ttft_ms ttft_from_schedule_ms e2e_ms queue_ms tpot_ms itl_ms"
    found: Any = {name: [] for name in (*names.split(), "inter_chunk_ms")}
    for r in records:
        sent, first, last = r["sent_ns"], r["chunks"][0][0], r["chunks"][-1][0]
        spans = [("ttft_ms", sent, first), ("e2e_ms", sent, last)]
        spans += [("ttft_from_schedule_ms", r["due_ns"], first)]
        spans += [("queue_ms", r["queued_ns"], r["start_ns"])]
        for (before, m), (after, n) in pairwise(r["chunks"]):
            known = r["known"] and m == n == 1
            spans += [(("inter_chunk_ms", "itl_ms")[known], before, after)]
        for name, start, end in spans:
            if start is not None and end is not None:
                found[name].append((end - start) / 1e6)
        if r["count"] > 1:
            found["tpot_ms"].append((last - first) / 1e6 / (r["count"] - 1))
    return found


def summary(values: list[float]) -> Fields:
    """Mean, maximum, and percentiles by linear interpolation."""
    x, count = sorted(values), len(values)
    found: Fields = {"count": count, "mean": over(math.fsum(x), count)}
    found |= dict.fromkeys(("p50", "p90", "p95", "p99"))
    for q in (50, 90, 95, 99)[: 3 + (count >= 100) if x else 0]:
        place = (count - 1) * q / 100
        low, high = (x + x[-1:])[int(place) : int(place) + 2]
        found[f"p{q}"] = low + (place - int(place)) * (high - low)
    return found | {"maximum": max(x, default=None)}


def examine(folder: Path) -> tuple[int, list[str]]:
    """The status, and what was found; what has another form differs, too."""
    evidence = Evidence(folder)
    try:
        complete, count = evidence.check()
    except OSError as error:
        return UNREADABLE, [ascii(f"There is no evidence: {error}.")[1:-1]]
    except ValueError as difference:
        evidence.found.append(str(difference))
    except Exception as error:
        evidence.found.append(f"This is no evidence: {error!r:.100}.")
    if evidence.found:
        return DIFFERS, [ascii(each)[1:-1] for each in evidence.found]
    words = "Complete and right" if complete else "Right, but partial"
    return (PARTIAL, COMPLETE)[complete], [f"{words}: {count} requests."]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return UNREADABLE
    status, sentences = examine(Path(arguments[0]))
    print(*sentences[:20], sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
