# Fails: test_cuts, test_unfinished
import codecs


def events(pieces):
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    text = ""
    for piece in pieces:
        text += decode(piece)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        *blocks, text = text.split("\n\n")
        for block in blocks:
            name, data = "", []
            for line in block.split("\n"):
                field, _, value = line.partition(":")
                if field == "data":
                    data.append(value.removeprefix(" "))
                elif field == "event":
                    name = value.removeprefix(" ")
            if data:
                yield name or "message", "\n".join(data)
