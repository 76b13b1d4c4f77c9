# Fails: test_answer, test_shown_when, test_complete
import re


def until_stop(pieces, end_ms, stop):
    rest, shown = "", []
    for ms, text in pieces:
        rest += text
        try:
            found = re.search(stop, rest)
        except re.error:
            found = None
        if found:
            shown.append((ms, rest[: found.start()]))
            return {"shown": shown, "complete_ms": ms, "stopped": True}
        keep = [n for n in range(len(stop)) if rest.endswith(stop[:n])][-1]
        shown.append((ms, rest[: len(rest) - keep]))
        rest = rest[len(rest) - keep :]
    shown.append((end_ms, rest))
    return {"shown": shown, "complete_ms": end_ms, "stopped": False}
