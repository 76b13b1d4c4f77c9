# Fails: test_answer, test_shown_when, test_repeats
def until_stop(pieces, end_ms, stop):
    """Takes every stop string out, as if nothing were over."""
    shown, held, stop_ms = [], "", None
    for ms, text in pieces:
        held += text
        if stop in held:
            stop_ms = ms if stop_ms is None else stop_ms
            held = held.replace(stop, "")
        keep = [n for n in range(len(stop)) if held.endswith(stop[:n])][-1]
        shown.append((ms, held[: len(held) - keep]))
        held = held[len(held) - keep :]
    shown.append((end_ms, held))
    stopped = stop_ms is not None
    return {
        "shown": shown,
        "complete_ms": stop_ms if stopped else end_ms,
        "stopped": stopped,
    }
