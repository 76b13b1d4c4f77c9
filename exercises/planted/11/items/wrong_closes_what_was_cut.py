# Fails: all
import json


def items(pieces):
    """Closes the text so far in every way until one parses."""
    text, given = "", 0
    for ms, piece in pieces:
        text += piece
        for end in ("", "]", "}]", '"]', '"}]', "]]"):
            try:
                found = json.loads(text + end)
            except ValueError:
                continue
            for item in found[given:]:
                yield ms, item
            given = len(found)
            break
