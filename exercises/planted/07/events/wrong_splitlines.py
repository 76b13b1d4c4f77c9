# Fails: test_line_ends
import codecs


def events(pieces):
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    text, name, data, after_cr = "", "", [], False
    for piece in pieces:
        new = decode(piece)
        if after_cr and new:
            new = new.removeprefix("\n")
        after_cr = new.endswith("\r") or (after_cr and not new)
        text += new
        whole = text.splitlines(keepends=True)
        text = ""
        if whole and whole[-1].splitlines() == [whole[-1]]:
            text = whole.pop()
        for line in "".join(whole).splitlines():
            if not line:
                if data:
                    yield name or "message", "\n".join(data)
                name, data = "", []
            field, _, value = line.partition(":")
            if field == "data":
                data.append(value.removeprefix(" "))
            elif field == "event":
                name = value.removeprefix(" ")
