# Fails: test_repeats
def until_stop(pieces, end_ms, stop):
    """Counts the characters that match; a wrong one starts again."""
    shown, matched = [], 0
    for ms, text in pieces:
        for character in text:
            if character == stop[matched]:
                matched += 1
                if matched == len(stop):
                    return {"shown": shown, "complete_ms": ms, "stopped": True}
            elif character == stop[0]:
                shown.append((ms, stop[:matched]))
                matched = 1 if len(stop) > 1 else 0
            else:
                shown.append((ms, stop[:matched] + character))
                matched = 0
    shown.append((end_ms, stop[:matched]))
    return {"shown": shown, "complete_ms": end_ms, "stopped": False}
