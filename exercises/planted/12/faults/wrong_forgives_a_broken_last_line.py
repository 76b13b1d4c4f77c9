# Fails: test_form, test_torn, test_many
def faults(lines):
    """Every fault of the lines: pairs (line number, word)."""
    found, due, requests = [], 1, {}
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not is_event(event):
            if number < len(lines):
                found.append((number, "form"))
            due += 1
            continue
        name, kind, time_ns = event["request"], event["kind"], event["time_ns"]
        if name not in requests:
            requests[name] = {"line": number, "time_ns": time_ns}
            requests[name] |= {"sent": 0, "token": 0, "end": 0, "ids": 0}
        seen = requests[name]
        broken = {
            "number": event["seq"] != due,
            "early": kind != "sent" and not seen["sent"],
            "late": kind == "token" and seen["end"],
            "twice": kind != "token" and seen[kind],
            "time": time_ns < seen["time_ns"],
            "count": kind == "end" and event["tokens"] != seen["ids"],
        }
        found += [(number, word) for word, holds in broken.items() if holds]
        due = event["seq"] + 1
        seen["time_ns"] = time_ns
        seen[kind] += 1
        if kind == "token":
            seen["ids"] += len(event["ids"])
    unended = [seen for seen in requests.values() if not seen["end"]]
    return found + [(seen["line"], "open") for seen in unended]
