import json


class Source:
    """Characters one at a time, one of them looked at before it is taken."""

    def __init__(self, pieces):
        self.ms, self.ahead = 0, None
        self.characters = self.flatten(pieces)

    def flatten(self, pieces):
        for ms, piece in pieces:
            self.ms = ms
            yield from piece

    def peek(self):
        if self.ahead is None:
            self.ahead = next(self.characters, "")
        return self.ahead

    def take(self):
        character, self.ahead = self.peek(), None
        if not character:
            raise ValueError("cut off")
        return character

    def skip(self):
        while self.peek() and self.peek() in " \t\r\n":
            self.take()

    def string(self):
        text = self.take()
        while len(text) == 1 or text[-1] != '"':
            text += self.take()
            if text[-1] == "\\":
                text += self.take() + ""
                if text[-1] == '"':
                    text = text[:-1] + "u0022"
        return text

    def value(self):
        sign = self.peek()
        if sign == '"':
            return self.string()
        text = self.take()
        if sign not in ("[", "{"):
            while self.peek() not in (",", "]", "", " ", "\t", "\r", "\n"):
                text += self.take()
            self.peek() or self.take()
            return text
        while self.peek() not in ("]", "}"):
            nested = self.peek() in ("[", "{", '"')
            text += self.value() if nested else self.take()
        return text + self.take()


def items(pieces):
    source = Source(pieces)
    source.skip()
    if source.take() != "[":
        raise ValueError("no array")
    source.skip()
    last = source.peek() == "]" and source.take()
    while not last:
        source.skip()
        item = json.loads(source.value())
        yield source.ms, item
        source.skip()
        last = {",": False, "]": True}.get(source.take())
        if last is None:
            raise ValueError("neither a comma nor the end")
    source.skip()
    if source.peek():
        raise ValueError("text after the array")
