# Fails: all
import json


def items(pieces):
    text = ""
    for ms, piece in pieces:
        text += piece
        *whole, text = text.lstrip(" [\n").split(",")
        for item in whole:
            yield ms, json.loads(item)
    if not text.rstrip().endswith("]"):
        raise ValueError("cut off")
    if text.rstrip()[:-1]:
        yield ms, json.loads(text.rstrip()[:-1])
