# Fails: test_characters
def events(pieces):
    line, name, data, after_cr = "", "", [], False
    for piece in pieces:
        for c in piece.decode(errors="replace").removeprefix("\ufeff"):
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
