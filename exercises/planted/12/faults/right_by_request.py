import json
from itertools import pairwise


def parsed(line):
    try:
        value = json.loads(line)
    except Exception:
        return None
    return value if is_event(value) else None


def faults(lines):
    """One pass for the form and the numbers, then one for each request."""
    if lines and not lines[-1].endswith("\n"):
        lines = lines[:-1]
    events = [(n, parsed(line)) for n, line in enumerate(lines, 1)]
    found = {(n, "form") for n, event in events if event is None}
    numbers = [0]
    for n, event in events:
        numbers.append(numbers[-1] + 1 if event is None else event["seq"])
        if numbers[-1] != numbers[-2] + 1:
            found.add((n, "number"))
    events = [(n, event) for n, event in events if event is not None]
    for name in {event["request"] for _, event in events}:
        found |= of_one([(n, e) for n, e in events if e["request"] == name])
    return found


def of_one(events):
    found = set()
    for (_, before), (n, event) in pairwise(events):
        if event["time_ns"] < before["time_ns"]:
            found.add((n, "time"))
    if not any(event["kind"] == "end" for _, event in events):
        found.add((events[0][0], "open"))
    for place, (n, event) in enumerate(events):
        above = [each for _, each in events[:place]]
        kinds, kind = [each["kind"] for each in above], event["kind"]
        if kind != "sent" and "sent" not in kinds:
            found.add((n, "early"))
        if kind == "token" and "end" in kinds:
            found.add((n, "late"))
        if kind != "token" and kind in kinds:
            found.add((n, "twice"))
        ids = sum(len(e["ids"]) for e in above if e["kind"] == "token")
        if kind == "end" and event["tokens"] != ids:
            found.add((n, "count"))
    return found
