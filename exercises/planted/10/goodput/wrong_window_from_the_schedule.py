# Fails: test_per_s
def values(record):
    """What the objectives bound; no TPOT for a single token."""
    tokens = record["token_ms"]
    found = {
        "ttft_ms": tokens[0] - record["sent_ms"],
        "ttft_from_schedule_ms": tokens[0] - record["due_ms"],
        "e2e_ms": tokens[-1] - record["sent_ms"],
    }
    n = len(tokens)
    if n > 1:
        found["tpot_ms"] = (tokens[-1] - tokens[0]) / (n - 1)
    return found


def good(record, objectives):
    found = values(record)
    for name, bound in objectives.items():
        if bound is None or name not in found:
            continue
        if found[name] > bound:
            return False
    return True


def goodput(records, objectives):
    answered = [r for r in records if r["end"] == "done" and r["token_ms"]]
    met = sum(good(r, objectives) for r in answered)
    share = met / len(records) if records else None
    found = {"met": met, "share": share}
    found |= {"share_answered": None, "per_s": None}
    if answered:
        found["share_answered"] = met / len(answered)
        start = min(r["due_ms"] for r in records)
        end = max(r["token_ms"][-1] for r in answered)
        found["per_s"] = 1000 * met / (end - start)
    return found
