# Fails: test_line_ends, test_cuts, test_unfinished, test_at_once
import codecs


def events(pieces):
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    line, name, data = "", "", []
    for piece in pieces:
        for c in decode(piece):
            if c not in "\r\n":
                line += c
                continue
            if not line:
                if data:
                    yield name or "message", "\n".join(data)
                name, data = "", []
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "event":
                name = value
            line = ""
