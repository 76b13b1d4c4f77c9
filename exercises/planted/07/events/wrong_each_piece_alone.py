# Fails: test_cuts, test_characters, test_at_once, test_after_cr
import codecs


def events(pieces):
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    for piece in pieces:
        line, name, data, after_cr = "", "", [], False
        for c in decode(piece):
            skip = after_cr and c == "\n"
            after_cr = c == "\r"
            if skip:
                continue
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
