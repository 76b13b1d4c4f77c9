# Fails: test_blocks, test_fields, test_line_ends
import codecs


def events(pieces):
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    line, name, data, after_cr = "", "", [], False
    for piece in pieces:
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
            field, _, value = line.rpartition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "event":
                name = value
            line = ""
