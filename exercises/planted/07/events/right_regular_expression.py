import codecs
import re


def events(pieces):
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    text, ended_with_cr, fields = "", False, []
    for piece in pieces:
        new = decoder.decode(piece)
        if not new:
            continue
        if ended_with_cr:
            new = new.removeprefix("\n")
        ended_with_cr = new.endswith("\r")
        *lines, text = re.split("\r\n|\r|\n", text + new)
        for line in lines:
            if line:
                match = re.fullmatch(r"([^:]*)(?:: ?(.*))?", line, re.DOTALL)
                fields.append((match[1], match[2] or ""))
                continue
            data = [value for field, value in fields if field == "data"]
            names = [value for field, value in fields if field == "event"]
            fields = []
            if data:
                yield (names or [""])[-1] or "message", "\n".join(data)
