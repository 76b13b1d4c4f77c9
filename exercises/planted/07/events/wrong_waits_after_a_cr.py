# Fails: test_after_cr
import codecs
import re


def lines(pieces):
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    text = ""
    for piece in pieces:
        # A CR at the end may be half of a line end.
        *whole, text = re.split(
            "\r\n|\r(?=.)|\n", text + decode(piece), flags=re.DOTALL
        )
        yield from whole
    if text.endswith("\r"):
        yield text.removesuffix("\r")


def events(pieces):
    name, data = "", []
    for line in lines(pieces):
        if not line:
            if data:
                yield name or "message", "\n".join(data)
            name, data = "", []
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
