def goodput(records, objectives):
    met = succeeded = 0
    first, last = None, None
    for record in records:
        sent, tokens = record["sent_ms"], record["token_ms"]
        first = sent if first is None else min(first, sent)
        if record["end"] != "done" or len(tokens) == 0:
            continue
        succeeded += 1
        last = tokens[-1] if last is None else max(last, tokens[-1])
        met += within(record, objectives)
    seconds = (last - first) / 1000 if succeeded else 0
    return {
        "per_s": met / seconds if succeeded else None,
        "share_answered": met / succeeded if succeeded else None,
        "share": met / len(records) if len(records) else None,
        "met": met,
    }


def within(record, objectives):
    tokens = record["token_ms"]
    for name, bound in objectives.items():
        if bound is None:
            continue
        if name == "tpot_ms":
            spent = tokens[-1] - tokens[0]
            allowed = bound * (len(tokens) - 1)
        else:
            last = name == "e2e_ms"
            start = "due_ms" if "schedule" in name else "sent_ms"
            spent = tokens[-1 if last else 0] - record[start]
            allowed = bound
        if spent > allowed:
            return False
    return True
