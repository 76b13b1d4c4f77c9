"""The corpus file: pieces of text, and what in them is known to differ.

Shared by make_corpus.py, record.py and the tests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus.jsonl"

# The model has a token for every byte but a few. Both tokenizers drop a byte
# without a token, but llama.cpp merges first and drops afterwards, so that
# the neighbours stay apart; the tokenizers library drops first and then may
# merge them. Bytes that occur in valid text: six control characters, and F1
# and F2, with which the UTF-8 of planes 4 to 11 begins (all unassigned).
CONTROLS_WITHOUT_TOKEN = "\x04\x06\x13\x14\x16\x1d"
PLANES_WITHOUT_TOKEN = range(0x40000, 0xC0000)

# Letters that came with Unicode 16. The tables of the tokenizers library have
# them and llama.cpp's do not: there they are symbols, and symbols take an
# apostrophe that follows, so that no contraction is seen.
NEWER_LETTERS = (
    range(0x1C89, 0x1C8B),  # Cyrillic
    range(0xA7CB, 0xA7CE),  # Latin
    range(0xA7DA, 0xA7DD),
    range(0x105C0, 0x105F4),  # Todhri
    range(0x10D4A, 0x10D66),  # Garay
    range(0x10D6F, 0x10D86),
    range(0x10EC2, 0x10EC5),  # Arabic
    range(0x11380, 0x1138A),  # Tulu-Tigalari
    range(0x1138B, 0x1138C),
    range(0x1138E, 0x1138F),
    range(0x11390, 0x113B6),
    range(0x113B7, 0x113B8),
    range(0x113D1, 0x113D2),
    range(0x113D3, 0x113D4),
    range(0x11BC0, 0x11BE1),  # Sunuwar
    range(0x13460, 0x143FB),  # hieroglyphs
    range(0x16100, 0x1611E),  # Gurung Khema
    range(0x16D40, 0x16D6D),  # Kirat Rai
    range(0x18CFF, 0x18D00),  # Khitan
    range(0x1E5D0, 0x1E5EE),  # Ol Onal
    range(0x1E5F0, 0x1E5F1),
)

# Numerals that came with Unicode 16 and 17. llama.cpp's tables lack them too,
# so it does not part them from white space before them.
NEWER_NUMERALS = (
    range(0x10D40, 0x10D4A),  # Garay
    range(0x116D0, 0x116E4),  # Myanmar: Pa'O, Eastern Pwo Karen
    range(0x11BF0, 0x11BFA),  # Sunuwar
    range(0x11DE0, 0x11DEA),  # Tolong Siki
    range(0x16130, 0x1613A),  # Gurung Khema
    range(0x16D70, 0x16D7A),  # Kirat Rai
    range(0x16FF4, 0x16FF7),  # musical signs for beats
    range(0x1CCF0, 0x1CCFA),  # outlined digits
    range(0x1E5F1, 0x1E5FB),  # Ol Onal
)
NEWER_CHARACTERS = "".join(
    chr(i) for points in (*NEWER_LETTERS, *NEWER_NUMERALS) for i in points
)


class Piece(NamedTuple):
    """One text, tokenized on its own, and what kind of text it is."""

    block: str
    text: str


def digest(pieces: Iterable[Piece]) -> str:
    """SHA-256 over all texts in order, whatever the file's line endings."""
    whole = hashlib.sha256()
    for piece in pieces:
        data = piece.text.encode()
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()


def read(path: Path = CORPUS) -> list[Piece]:
    """The pieces of a corpus file."""
    with path.open(encoding="ascii") as lines:
        return [Piece(**json.loads(line)) for line in lines]


def write(pieces: Iterable[Piece], path: Path = CORPUS) -> None:
    """Replace a corpus file; pure ASCII, so that no editor changes it."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w", encoding="ascii", newline="\n") as stream:
        for piece in pieces:
            stream.write(json.dumps(piece._asdict()) + "\n")
    temporary.replace(path)
