import re


def until_stop(pieces, end_ms, stop):
    ends = "|".join(re.escape(stop[:n]) for n in range(len(stop), 0, -1))
    pattern = re.compile(f"(?:{ends})\\Z|{re.escape(stop)}", re.DOTALL)
    rest, shown = "", []
    for ms, text in pieces:
        rest += text
        found = pattern.search(rest)
        cut = found.start() if found else len(rest)
        shown.append((ms, rest[:cut]))
        rest = rest[cut:]
        if rest.startswith(stop):
            return {"shown": shown, "complete_ms": ms, "stopped": True}
    shown.append((end_ms, rest))
    return {"shown": shown, "complete_ms": end_ms, "stopped": False}
