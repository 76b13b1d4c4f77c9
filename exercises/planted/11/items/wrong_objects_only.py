# Fails: all
import json


def items(pieces):
    text, depth = "", 0
    for ms, piece in pieces:
        for c in piece:
            depth += c == "{"
            if depth:
                text += c
            depth -= c == "}"
            if text and not depth:
                yield ms, json.loads(text)
                text = ""
    if text:
        raise ValueError("cut off")
