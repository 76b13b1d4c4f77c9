# Fails: all
import json


def items(pieces):
    for ms, piece in pieces:
        for item in json.loads("[" + piece.strip(" [],\n") + "]"):
            yield ms, item
