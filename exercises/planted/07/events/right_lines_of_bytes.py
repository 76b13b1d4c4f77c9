def lines(pieces):
    """Lines as bytes, each as soon as it has ended."""
    line, last = bytearray(), None
    for piece in pieces:
        for byte in piece:
            if byte == 13 or (byte == 10 and last != 13):
                yield bytes(line)
                line.clear()
            elif byte != 10:
                line.append(byte)
            last = byte


def events(pieces):
    name, data, at_start = "", None, True
    for raw in lines(pieces):
        line = raw.decode("utf-8-sig" if at_start else "utf-8")
        at_start = False
        field, _, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if not line:
            if data is not None:
                yield [name or "message", data]
            name, data = "", None
        elif field == "event":
            name = value
        elif field == "data":
            data = value if data is None else data + "\n" + value
