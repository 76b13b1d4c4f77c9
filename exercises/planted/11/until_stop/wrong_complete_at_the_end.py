# Fails: test_complete
def until_stop(pieces, end_ms, stop):
    shown, held = [], ""
    for ms, text in pieces:
        held += text
        place = held.find(stop)
        if place >= 0:
            shown.append((ms, held[:place]))
            return {"shown": shown, "complete_ms": end_ms, "stopped": True}
        keep = 0
        for n in range(1, min(len(stop), len(held) + 1)):
            if held.endswith(stop[:n]):
                keep = n
        cut = len(held) - keep
        shown.append((ms, held[:cut]))
        held = held[cut:]
    shown.append((end_ms, held))
    return {"shown": shown, "complete_ms": end_ms, "stopped": False}
