"""Write corpus.jsonl, the text on which two tokenizers are compared.

    python tests/tokenizer/make_corpus.py

Each line is a piece: a block (what kind of text it is) and the text. Part is
written by hand (texts/), part is drawn from a seeded generator, and the
result is the same on every machine. After a change of the corpus the ids have
to be recorded again with record.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from corpus import (
    CONTROLS_WITHOUT_TOKEN,
    HERE,
    NEWER_CHARACTERS,
    NEWER_LETTERS,
    NEWER_NUMERALS,
    Piece,
    digest,
    write,
)

SEED = "labkit tokenizer corpus 1"
T = TypeVar("T")

# --- a generator that every version of Python draws alike ----------------


class Draw:
    """Seeded choices, made from random() alone.

    Python promises the same sequence in every version for random() and for
    no other method.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, stop: int) -> int:
        """An integer in [0, stop)."""
        return int(self._random() * stop)

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def length(self, low: int, high: int) -> int:
        """An integer in [low, high], short ones more often (log-uniform)."""
        exponent = self._random() * math.log((high + 1) / low)
        return min(high, int(low * math.exp(exponent)))

    def of(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` items, with repetition."""
        return [self.of(items) for _ in range(count)]


# --- blocks written by hand ----------------------------------------------


def written(name: str) -> list[str]:
    """The texts of one file, parted by lines of two percent signs."""
    text = (HERE / "texts" / f"{name}.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n%%\n")


def excerpts(draw: Draw) -> Iterator[str]:
    """Windows of the written texts that begin and end anywhere."""
    texts = ["\n\n".join(written(name)) for name in WRITTEN]
    for _ in range(90):
        text = draw.of(texts)
        size = draw.length(2, 3000)
        start = draw.below(len(text) - size)
        yield text[start : start + size]


# --- blocks drawn by the generator ---------------------------------------


def words(text: str) -> list[str]:
    """What stands between the spaces of a text."""
    return text.split()


PLACES = words(
    "Northgate Alder-on-Sea Kirkby Óbidos Saint-Dié Łomża Tórshavn "
    "McAllister 's-Hertogenbosch Zürich İzmir Nuku'alofa"
)
UNITS = words("mm km/h kWh °C % € US$ mbar tok/s MiB/s m² m³ µs dB kg·m⁻³")
VERBS = words("rose fell held overtook mustn't-exceed re-crossed DOUBLED")
SENTENCES = (
    "At {place} the reading {verb} {number} {unit} on {date}.",
    "{place}: {number}{unit} ({number} a year ago).",
    "Between {time} and {time} it {verb} by {number} %, didn't it?",
    '"{number} {unit}!" said the keeper at {place}. "That can\'t be right."',
    "See table {number}, p. {number}-{number}; cf. {place} [{number}].",
    "No. {number} -- {place}, {date}, {time}h -- see note {number}/{number}.",
    "In {date} nobody at {place} had heard of anything above {number}{unit}.",
)


def number(draw: Draw) -> str:
    """A number as people write them."""
    whole = 10 ** draw.between(0, 9)
    value = draw.below(whole * 10)
    style = draw.of(
        ("{:d}", "{:,d}", "{:_d}", "-{:d}", "+{:d}", "{:05d}", "{:x}", "{:#X}")
    )
    fraction = draw.of(("", "", ".5", ".00", ",75", ".0625", "e-7", "E+12"))
    return style.format(value) + fraction


def date(draw: Draw) -> str:
    """A date in one of several customs."""
    year, month = draw.between(1492, 2099), draw.between(1, 12)
    day = draw.between(1, 28)
    months = words("Jan Feb March April May June July Aug Sept Oct Nov Dec")
    return draw.of(
        (
            f"{year}-{month:02}-{day:02}",
            f"{day}.{month}.{year}",
            f"{month}/{day}/{year % 100:02}",
            f"{day} {months[month - 1]} {year}",
            f"{year}年{month}月{day}日",
            f"{day}º/{month:02}/'{year % 100:02}",
        )
    )


def time_of_day(draw: Draw) -> str:
    """A time of day in one of several customs."""
    hour, minute = draw.below(24), draw.below(60)
    second = f"{draw.below(60):02}.{draw.below(1000):03}"
    return draw.of(
        (
            f"{hour:02}:{minute:02}",
            f"{hour % 12 + 1}:{minute:02} a.m.",
            f"{hour}h{minute:02}",
            f"T{hour:02}:{minute:02}:{second}Z",
        )
    )


def reports(draw: Draw) -> Iterator[str]:
    """Paragraphs from templates, with many numbers."""
    for _ in range(45):
        yield draw.of((" ", "\n", "  ")).join(
            draw.of(SENTENCES).format(
                place=draw.of(PLACES),
                verb=draw.of(VERBS),
                number=number(draw),
                unit=draw.of(UNITS),
                date=date(draw),
                time=time_of_day(draw),
            )
            for _ in range(draw.length(1, 20))
        )


# Code points of the digit zero; the other nine follow it.
ZEROS = (
    *(0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6),
    *(0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090),
    *(0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40),
    *(0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10),
    *(0x104A0, 0x10D30, 0x11066, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0),
    *(0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0),
    *(0x11F50, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC),
    *(0x1D7F6, 0x1E140, 0x1E2F0, 0x1E4F0, 0x1E950, 0x1FBF0),
)
NUMERALS = (
    "²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉½¼¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅟↉ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯⅰⅱⅲⅳⅴⅵⅿↀↁↂↅↇↈ"
    "①②③⑩⑳⑴⑵⒈⒉⓪⓵❶❿➀➊㉑㉟㊀㊁㊉㈠㈩〇〡〢〣〸〹〺一二三十百千万億零௰௱௲፩፪፫፲፻፼৴৵৹౸౹൰൱༪༳"
    "𐄇𐄈𐄐𐅀𐅁𐆊𐋡𐋢𐌠𐏑𐡘𐤖𐩀𐹠𑁒𑁣𑣪𒐀𒐁𒐕𓏺𖭛𝍠𝍡𞣇𞱱𞲀🄀🄁🄂🄐"
)
SEPARATORS = ("", "", "", ".", ",", " ", "  ", "\u202f", "'", "_", "/", ":")
AROUND = (
    "",
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "a",
    "Ω",
    "#",
    "$",
    "(",
    "-",
    "é",
    "،",
)


def digits_of(draw: Draw, zero: int) -> str:
    """A few digits of one script, with separators."""
    count = draw.length(1, 12)
    return "".join(
        chr(zero + draw.below(10)) + draw.of(SEPARATORS) for _ in range(count)
    )


def digits(draw: Draw) -> Iterator[str]:
    """Numbers of every kind, in every script, next to other characters."""
    for _ in range(40):
        count = draw.length(1, 40)
        yield draw.of((" ", ", ", "\n", "; ", "")).join(
            draw.of((number, number, date, time_of_day))(draw)
            for _ in range(count)
        )
    for zero in (*ZEROS, 0x30):
        yield "".join(
            draw.of(AROUND) + digits_of(draw, zero) + draw.of(AROUND)
            for _ in range(draw.between(2, 6))
        )
    for _ in range(25):
        yield "".join(
            draw.of(AROUND) + draw.of(NUMERALS) + draw.of(("", "", "7"))
            for _ in range(draw.length(2, 60))
        )
    yield from ("0", " 0", "00", "007", "3.14159", "1 2  3   4    5", "１２３")
    yield "".join(str(n) for n in range(400))
    yield " ".join(str(n * n) for n in range(200))


SPACES = (
    " \t\n\r\x0b\x0c\x1c\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004"
    "\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
NOT_QUITE_SPACES = "\u180e\u200b\u200c\u200d\u2060\ufeff\xad\u2800\u3164"
WORDS = words(
    "a I the word Word WORD x1 1 42 , . -- ( ) == naïve Ünal и не слово 一 二 "
    "の ไทย عربي 'tis don't <b> // \\n é e\u0301 🙂"
)


def white_space(draw: Draw) -> Iterator[str]:
    """Words between runs of every kind of space, first and last too."""
    for space in SPACES + NOT_QUITE_SPACES:
        for count in (1, 2, 5):
            run = space * count
            yield f"{run}a{run}b {run}c{run} d {run} e1{run}2.{run}"
    for _ in range(60):
        yield "".join(
            draw.of(WORDS)
            + "".join(draw.some(SPACES + "    \n", draw.length(1, 6)))
            for _ in range(draw.length(1, 25))
        )
    for _ in range(20):
        runs = [draw.of(" \t\n\u3000") * draw.length(1, 70) for _ in range(4)]
        yield draw.of(WORDS).join(runs)
    yield from (
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\r\n\r\n x\r\n",
        " \n \n ",
        "a ",
    )
    yield "line one\r\nline two\r\n\r\n    indented\r\n\tTab\t\r\nlast  \r\n"


MARKS = "\u0300\u0301\u0302\u0303\u0304\u0307\u0308\u030a\u030c\u0323\u0327"
OTHER_MARKS = (
    "\u0334\u0338\u035c\u0361\u0489\u05b0\u05bc\u064b\u064e\u0651\u0670\u093c"
    "\u094d\u0bcd\u0e34\u0e48\u0f71\u1ab0\u1dc4\u20d0\u20e3\u302a\u3099\ufe20"
)


def combining(draw: Draw) -> Iterator[str]:
    """Letters with marks: ordinary, stacked, misplaced, alone."""
    bases = "aeiouyAEIOUncszl к א ب क ก あ ᄀ 1 . ( \u25cc"
    for _ in range(40):
        yield "".join(
            draw.of(bases)
            + "".join(draw.some(MARKS + OTHER_MARKS, draw.below(4)))
            for _ in range(draw.length(3, 80))
        )
    for mark in MARKS + OTHER_MARKS:
        yield f"{mark}a{mark} {mark} n{mark}{mark}t '{mark}s 1{mark}"
    yield "Z" + "\u0334\u0321\u035d\u0315" * 60 + "algo"
    yield "Cafe\u0301 Caf\xe9 \xc5 A\u030a q\u0307\u0323 q\u0323\u0307 ﬁ ﬃ ĳ"


FACES = "😀😂🥲😎🤖👻💀👽🐙🦊🌍🌋🔥✨⚡❄☃☎✂✔✖♥♠♻⚠🎉🎻🏁🚀🧪🧬🪐🫠🫶🏻"
PEOPLE = "👩👨🧑👶👴👵🤵🦸"
TONES = "🏻🏼🏽🏾🏿"
TOOLS = "⚕🌾🍳🎓🎤🏫🏭💻💼🔧🔬🚀🚒❤"
JOINER, EMOJI_STYLE, TEXT_STYLE = "\u200d", "\ufe0f", "\ufe0e"


def flag(draw: Draw) -> str:
    """Two regional indicators, a country or not."""
    return "".join(chr(0x1F1E6 + draw.below(26)) for _ in range(2))


def joined(draw: Draw) -> str:
    """A person of some skin tone with a tool, or a family."""
    person = draw.of(PEOPLE) + draw.of((*TONES, ""))
    tool = draw.of(TOOLS) + draw.of((EMOJI_STYLE, ""))
    family = JOINER.join(draw.some(PEOPLE, draw.between(2, 4)))
    return draw.of((person + JOINER + tool, family))


def emoji(draw: Draw) -> Iterator[str]:
    """Faces, families, flags, key caps, and halves of each."""
    kinds: tuple[Callable[[Draw], str], ...] = (
        lambda d: d.of(FACES),
        lambda d: d.of(FACES) + d.of((EMOJI_STYLE, TEXT_STYLE)),
        joined,
        flag,
        lambda d: d.of("0123456789#*") + EMOJI_STYLE + "\u20e3",
        lambda d: d.of((JOINER, EMOJI_STYLE, *TONES, "\U0001f1eb")),
        lambda d: d.of((" ", "  ", "ok", "!", "\n", "1", "'s", "é")),
    )
    for _ in range(60):
        yield "".join(draw.of(kinds)(draw) for _ in range(draw.length(1, 60)))
    wales = "".join(chr(0xE0000 + ord(c)) for c in "gbwls\x7f")
    yield f"\U0001f3f4{wales} \U0001f3f4{JOINER}☠{EMOJI_STYLE} 🇫🇷🇯🇵🇨🇮🇧🇷"
    yield JOINER.join(("👩🏽", f"❤{EMOJI_STYLE}", "💋", "👨🏿")) + "!"
    yield "Nice work 👍🏽👍🏽!! See you at 5 🕔, bring 🍕🍕 (& 🥤)"
    yield ":-) ;) <3 :/ ^_^ ¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻ ಠ_ಠ ʕ•ᴥ•ʔ"


ENDINGS = (
    "s",
    "t",
    "re",
    "ve",
    "m",
    "ll",
    "d",
    "S",
    "T",
    "RE",
    "LL",
    "D",
    "x",
)
STEMS = (
    *("I", "you", "he", "they", "isn", "Don", "WE", "o", "rock", "", " ", "1"),
    *("l", "qu", "d", "é", "слово", "三", "🙂", "x_", "  ", "\n", "(", "''"),
)
QUOTES = "'''''’’‘`´ʼ＇\u0301"


def contractions(draw: Draw) -> Iterator[str]:
    """Apostrophes of every kind, with endings that are and are not split."""
    for quote in "'’ʼ":
        for stem in STEMS:
            yield " ".join(stem + quote + ending for ending in ENDINGS)
    for _ in range(40):
        yield "".join(
            draw.of(STEMS)
            + draw.of(QUOTES)
            + draw.of(ENDINGS)
            + draw.of(("", " ", "  ", "e", "2", ".", "'", "\n"))
            for _ in range(draw.length(2, 30))
        )
    yield "'tis 'twas o'clock rock 'n' roll '90s the '60s' fo'c's'le"
    yield "l'été d’accord We'll've y'all'd've'f I'd've. SHE'LL DON'T He'S"
    yield "'S 's ''s '''s 's's'S 'sup 'til 'd 're're"


def letter_case(draw: Draw) -> Iterator[str]:
    """The written texts in other cases, and letters whose case is odd."""
    texts = written("prose") + written("languages")
    parts = " ".join(texts).split(" ")
    changes: tuple[Callable[[str], str], ...] = (
        lambda w: w.upper() if w.isascii() else w,
        lambda w: w[:1].swapcase() + w[1:] if w.isascii() else w,
        lambda w: w[::2].upper() + w[1::2] if w.isascii() else w,
    )
    for _ in range(25):
        start, count = draw.below(len(parts) - 200), draw.length(4, 200)
        change = draw.of(changes)
        yield " ".join(change(part) for part in parts[start : start + count])
    yield "camelCase PascalCase snake_case SCREAMING_SNAKE kebab-case"
    yield "XMLHttpRequest2 iPhone eBay LaTeX PhD HTTPServer2Go O'BRIEN"
    yield "ßẞ ıİi\u0307 ǆǅǄ ſs \u212aK \u212b\xc5 ﬀ ΣΑΣ σας Ǉǈǉ ΐ ᾳᾼ ꭰᎠ"


def control(draw: Draw) -> Iterator[str]:
    """Control and format characters among text."""
    characters = [
        *map(chr, (*range(0x20), *range(0x7F, 0xA0))),
        *"\xad\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2069",
        *"\ufff9\ufffb\ufffc\ufffd\ufffe\uffff\U000e0001\U0001fffe",
    ]
    for character in characters:
        yield f"a{character}b {character}c  {character}{character}"
    usual = [c for c in characters if c not in CONTROLS_WITHOUT_TOKEN]
    for _ in range(20):
        yield "".join(draw.some([*usual, *WORDS], draw.length(3, 60)))
    yield "\x1b[1;31merror\x1b[0m: \x1b]0;title\x07 C:\\temp\x00\x00end\x00"


SPECIAL_TOKENS = words(
    "<|endoftext|> <|im_start|> <|im_end|> <repo_name> <reponame> <file_sep> "
    "<filename> <gh_stars> <issue_start> <issue_comment> <issue_closed> "
    "<jupyter_start> <jupyter_text> <jupyter_code> <jupyter_output> "
    "<jupyter_script> <empty_output>"
)


def special(draw: Draw) -> Iterator[str]:
    """Text that looks like a special token, whole, cut and nested."""
    for token in SPECIAL_TOKENS:
        yield token
        yield f"a{token}b {token} {token}{token}\n{token}\n1{token}2"
    for _ in range(40):
        token = draw.of(SPECIAL_TOKENS)
        cut = draw.between(1, len(token))
        parts = (token[:cut], token[cut:], token.upper(), draw.of(WORDS))
        yield draw.of((" ", "", "\n", "<|", "|>")).join(parts)
    yield "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n"
    yield "<s></s>[INST]<|<|im_end|>|><unk><pad>&lt;|im_end|&gt;<|im_end |>"


def runs(draw: Draw) -> Iterator[str]:
    """Long runs of one character or one short group."""
    groups = (
        *"aAzé0 -=_*.#/~\n\tя一あ한ก🙂ا\xa0\u3000\u0301\u200b'",
        *(
            "ab",
            "=-",
            "ha",
            "\r\n",
            " \n",
            "(",
            "){",
            "<>",
            "''",
            "\\n",
            "no ",
        ),
        *("0x", "1,", "яж", "呵呵", "🇫🇷", "👩🏽", "e\u0301", "  x", "\t\t}"),
    )
    for group in groups:
        size = draw.length(40, 700)
        yield group * max(2, size // len(group.encode()))
        yield "x" + group * draw.between(2, 33) + draw.of(WORDS)
    yield "".join(chr(c) for c in range(0x20, 0x7F)) * 3


RANGES = {
    "ASCII": (0x20, 0x7F),
    "Latin-1": (0xA0, 0x100),
    "Latin extended": (0x100, 0x250),
    "phonetic": (0x250, 0x300),
    "combining marks": (0x300, 0x370),
    "Greek": (0x370, 0x400),
    "Cyrillic": (0x400, 0x530),
    "Armenian": (0x530, 0x590),
    "Hebrew": (0x590, 0x600),
    "Arabic": (0x600, 0x700),
    "Syriac to N'Ko": (0x700, 0x860),
    "Devanagari": (0x900, 0x980),
    "Bengali": (0x980, 0xA00),
    "Gurmukhi, Gujarati": (0xA00, 0xB00),
    "Odia, Tamil": (0xB00, 0xC00),
    "Telugu, Kannada": (0xC00, 0xD00),
    "Malayalam, Sinhala": (0xD00, 0xE00),
    "Thai": (0xE00, 0xE80),
    "Lao": (0xE80, 0xF00),
    "Tibetan": (0xF00, 0x1000),
    "Myanmar": (0x1000, 0x10A0),
    "Georgian": (0x10A0, 0x1100),
    "Hangul jamo": (0x1100, 0x1200),
    "Ethiopic": (0x1200, 0x13A0),
    "Cherokee": (0x13A0, 0x1400),
    "Canadian syllabics": (0x1400, 0x1680),
    "Ogham to Tagbanwa": (0x1680, 0x1780),
    "Khmer, Mongolian": (0x1780, 0x18B0),
    "Limbu to Vedic": (0x1900, 0x1D00),
    "phonetic extensions": (0x1D00, 0x1E00),
    "Latin additional": (0x1E00, 0x1F00),
    "Greek extended": (0x1F00, 0x2000),
    "punctuation": (0x2000, 0x2070),
    "superscripts, currency": (0x2070, 0x2100),
    "letterlike, number forms": (0x2100, 0x2190),
    "arrows, mathematics": (0x2190, 0x2300),
    "technical, boxes": (0x2300, 0x2600),
    "symbols, dingbats": (0x2600, 0x27C0),
    "more mathematics": (0x27C0, 0x2C00),
    "Glagolitic to Cyrillic": (0x2C00, 0x2E80),
    "CJK radicals, punctuation": (0x2E80, 0x3040),
    "Hiragana, Katakana": (0x3040, 0x3100),
    "Bopomofo to enclosed CJK": (0x3100, 0x3400),
    "CJK ideographs": (0x4E00, 0xA000),
    "Yi": (0xA000, 0xA4D0),
    "Lisu to Meetei Mayek": (0xA4D0, 0xAC00),
    "Hangul syllables": (0xAC00, 0xD7A4),
    "private use": (0xE000, 0xF900),
    "compatibility ideographs": (0xF900, 0xFB00),
    "presentation forms": (0xFB00, 0xFE00),
    "half and full width": (0xFE00, 0x10000),
    "ancient scripts": (0x10000, 0x11000),
    "Indic of plane 1": (0x11000, 0x12000),
    "cuneiform, hieroglyphs": (0x12000, 0x14680),
    "scripts of plane 1": (0x16800, 0x17000),
    "Kana of plane 1": (0x1AFF0, 0x1B300),
    "music, mathematics": (0x1D000, 0x1D800),
    "sign writing to Adlam": (0x1D800, 0x1F000),
    "pictographs": (0x1F000, 0x1FC00),
    "ideographs of plane 2": (0x20000, 0x2FA20),
    "ideographs of plane 3": (0x30000, 0x323B0),
    "tags, variation selectors": (0xE0000, 0xE01F0),
    "private use of plane 16": (0x100000, 0x10FFFE),
}


def drawn_from(draw: Draw, first: int, stop: int) -> str:
    """Characters of a range, assigned or not, among spaces and quotes."""
    parts = []
    for _ in range(draw.length(8, 60)):
        word = (
            draw.between(first, stop - 1) for _ in range(draw.length(1, 8))
        )
        parts.append("".join(map(chr, word)))
        parts.append(draw.of((" ", " ", "  ", "", "'s", "1", "\n", ", ", "é")))
    return "".join(parts)


def newer_characters(draw: Draw) -> Iterator[str]:
    """Characters too new for llama.cpp, where it shows."""
    for points in NEWER_NUMERALS:
        for point in points:
            yield f"a  {chr(point)}b"
    for points in NEWER_LETTERS:
        for point in sorted({points[0], points[-1]}):
            yield f"{chr(point)}'{draw.of(('s', 't', 'll'))}"


def bytes_without_token(draw: Draw) -> Iterator[str]:
    """Bytes without a token between bytes that could be merged."""
    for character in CONTROLS_WITHOUT_TOKEN:
        yield f"f({character}) —{character}—"
    for point in (0x7DF03, 0x82366, 0xB7B4E, 0xB9AC2, 0xBDCC3):
        yield chr(point) * 2


# --- the whole ------------------------------------------------------------

WRITTEN = ("prose", "languages", "scripts", "code")
DRAWN: tuple[Callable[[Draw], Iterable[str]], ...] = (
    excerpts,
    reports,
    digits,
    white_space,
    combining,
    emoji,
    contractions,
    letter_case,
    control,
    special,
    runs,
    newer_characters,
    bytes_without_token,
)
KNOWN_DIFFERENT = ("newer_characters", "bytes_without_token")


def mosaics(draw: Draw, pieces: Sequence[Piece]) -> Iterator[str]:
    """Fragments of all kinds side by side, without care for boundaries."""
    for _ in range(70):
        yield "".join(
            text[start : start + draw.length(1, 90)]
            for text in (p.text for p in draw.some(pieces, draw.length(2, 40)))
            for start in [draw.below(len(text))]
        )


def without_known_differences(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces with nothing in them that is known to differ."""
    table = dict.fromkeys(map(ord, NEWER_CHARACTERS + CONTROLS_WITHOUT_TOKEN))
    for piece in pieces:
        yield Piece(piece.block, piece.text.translate(table))


def blocks() -> set[str]:
    """The name of every block."""
    return {*WRITTEN, *(m.__name__ for m in DRAWN), *RANGES, "mosaics"}


def build() -> list[Piece]:
    """The whole corpus; no piece is empty and none stands there twice."""
    pieces = [Piece(name, t) for name in WRITTEN for t in written(name)]
    for make in DRAWN:
        name = make.__name__
        draw = Draw(f"{SEED} {name}")
        pieces += [Piece(name, text) for text in make(draw)]
    plain = [p for p in pieces if p.block not in KNOWN_DIFFERENT]
    mixed = []
    for name, (first, stop) in RANGES.items():
        draw = Draw(f"{SEED} {name}")
        for _ in range(3):
            mixed.append(Piece(name, drawn_from(draw, first, stop)))
    texts = mosaics(Draw(f"{SEED} mosaics"), plain + mixed)
    mixed += [Piece("mosaics", text) for text in texts]
    pieces += without_known_differences(mixed)
    unique: dict[str, Piece] = {}
    for piece in pieces:
        unique.setdefault(piece.text, piece)
    unique.pop("", None)
    return list(unique.values())


if __name__ == "__main__":
    corpus = build()
    write(corpus)
    size = sum(len(piece.text.encode()) for piece in corpus)
    print(f"{len(corpus)} pieces, {size} bytes, SHA-256 {digest(corpus)}")
