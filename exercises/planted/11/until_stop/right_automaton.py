def steps(stop):
    """For each matched length and character, the next matched length."""
    table = []
    for length in range(len(stop)):
        row = {}
        for character in set(stop):
            seen = stop[:length] + character
            while not stop.startswith(seen):
                seen = seen[1:]
            row[character] = len(seen)
        table.append(row)
    return table


def until_stop(pieces, end_ms, stop):
    table, matched, shown = steps(stop), 0, []
    for ms, text in pieces:
        for character in text:
            after = table[matched].get(character, 0)
            if after == len(stop):
                return {"shown": shown, "complete_ms": ms, "stopped": 1}
            free = (stop[:matched] + character)[: matched + 1 - after]
            shown += [(ms, free)] if free else []
            matched = after
    shown += [(end_ms, stop[:matched])]
    return {"shown": shown, "complete_ms": end_ms, "stopped": 0}
