import json
import re

SPACE = re.compile(r"[ \t\r\n]*")
SCALAR = re.compile(r"[^ \t\r\n,\]]*")


def items(pieces):
    """Cuts what is understood off the front of a buffer."""
    decode = json.JSONDecoder().raw_decode
    rest, state = "", "before"
    for ms, piece in pieces:
        rest += piece
        while True:
            rest = rest[SPACE.match(rest).end() :]
            if not rest:
                break
            sign = rest[0]
            if (state, sign) in SIGNS:
                state, rest = SIGNS[state, sign], rest[1:]
            elif state not in ("first", "item"):
                raise ValueError(state)
            elif sign in '[{"':
                try:
                    item, end = decode(rest)
                except ValueError:
                    break
                yield ms, item
                state, rest = "after", rest[end:]
            else:
                end = SCALAR.match(rest).end()
                if end == len(rest):
                    break
                yield ms, json.loads(rest[:end])
                state, rest = "after", rest[end:]
    if state != "over" or rest:
        raise ValueError(rest)


SIGNS = {
    ("before", "["): "first",
    ("first", "]"): "over",
    ("after", "]"): "over",
    ("after", ","): "item",
}
