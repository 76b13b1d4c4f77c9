import numpy as np


def certain(text, stop):
    """How many characters of the text cannot be part of the stop string."""
    for begin in range(len(text)):
        if stop.startswith(text[begin : begin + len(stop)]):
            return begin
    return len(text)


def until_stop(pieces, end_ms, stop):
    text, sure, shown = "", 0, []
    for ms, more in pieces:
        text += more
        now = certain(text, stop)
        if now > sure:
            shown.append([np.float64(ms), text[sure:now]])
        sure = now
        if stop in text:
            return dict(zip(KEYS, (shown, np.float64(ms), True), strict=True))
    shown.append([np.float64(end_ms), text[sure:]])
    return dict(zip(KEYS, (shown, np.float64(end_ms), False), strict=True))


KEYS = ["shown", "complete_ms", "stopped"]
