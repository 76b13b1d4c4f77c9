"""The tokenizer gives the ids that llama.cpp gave, on every kind of text.

The ids were recorded by record.py; nothing of llama.cpp runs here.
"""

from __future__ import annotations

import importlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Split

from labkit.checkpoints import DEFAULT, WheelSource, find

pytestmark = pytest.mark.model
HERE = Path(__file__).parent

# Blocks in which every piece differs from llama.cpp, and no other piece
# does; corpus.py has the characters and the cause of each.
KNOWN_DIFFERENT = {"newer_characters", "bytes_without_token"}


@pytest.fixture(scope="session")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The modules corpus and make_corpus, which lie beside this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        names = ("corpus", "make_corpus")
        yield {name: importlib.import_module(name) for name in names}


@pytest.fixture(scope="session")
def corpus(scripts: dict[str, ModuleType]) -> ModuleType:
    """Reads the corpus file; knows what is known to differ."""
    return scripts["corpus"]


@pytest.fixture(scope="session")
def pieces(corpus: ModuleType) -> list[Any]:
    """Every piece of the corpus: its block and its text."""
    read: list[Any] = corpus.read()
    return read


@pytest.fixture(scope="session")
def origin() -> dict[str, Any]:
    """What llama.cpp's ids were made from."""
    text = (HERE / "llama_cpp_ids.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


@pytest.fixture(scope="session")
def recorded() -> list[list[int]]:
    """llama.cpp's ids of every piece."""
    path = HERE / "llama_cpp_ids.npz"
    with np.load(path, allow_pickle=False) as file:
        ids, ends = file["ids"], file["ends"]
    assert ends[-1] == len(ids)
    return [part.tolist() for part in np.split(ids, ends[:-1])]


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of a text, nothing added."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def decode(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The text that ids stand for."""
    text: str = tokenizer.decode(ids, skip_special_tokens=False)
    return text


def altered(tokenizer: Tokenizer, *steps: PreTokenizer) -> Tokenizer:
    """A copy that splits text by these steps."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.encode_special_tokens = tokenizer.encode_special_tokens
    copy.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
    return copy


def difference(
    tokenizer: Tokenizer, name: str, ours: list[int], theirs: list[int]
) -> str:
    """Where two lists of ids part, and what stands there."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    shorter = min(len(ours), len(theirs))
    at = next((i for i, (a, b) in pairs if a != b), shorter)
    before = decode(tokenizer, theirs[max(0, at - 8) : at])
    after = decode(tokenizer, theirs[at : at + 8])
    return (
        f"{name}, token {at}: {ours[at : at + 5]}, llama.cpp has "
        f"{theirs[at : at + 5]}, after {before!r} and before {after!r}"
    )


def differences(
    tokenizer: Tokenizer, pieces: list[Any], recorded: list[list[int]]
) -> dict[int, str]:
    """Number and description of every piece that differs."""
    found = {}
    for i, piece in enumerate(pieces):
        ours = encode(tokenizer, piece.text)
        if ours != recorded[i]:
            name = f"corpus.jsonl line {i + 1} ({piece.block})"
            found[i] = difference(tokenizer, name, ours, recorded[i])
    return found


def test_ids_equal_llama_cpp(
    tokenizer: Tokenizer, pieces: list[Any], recorded: list[list[int]]
) -> None:
    found = differences(tokenizer, pieces, recorded)
    surprises = [
        text
        for i, text in found.items()
        if pieces[i].block not in KNOWN_DIFFERENT
    ]
    listing = "\n".join(surprises[:20])
    assert not surprises, f"{len(surprises)} pieces differ:\n{listing}"


def test_known_differences_are_all_still_there(
    tokenizer: Tokenizer, pieces: list[Any], recorded: list[list[int]]
) -> None:
    found = differences(tokenizer, pieces, recorded)
    stale = [
        repr(piece)
        for i, piece in enumerate(pieces)
        if piece.block in KNOWN_DIFFERENT and i not in found
    ]
    assert not stale, "these no longer differ: " + "\n".join(stale)


def test_known_differences_have_the_cause_that_corpus_py_states(
    tokenizer: Tokenizer,
    corpus: ModuleType,
    pieces: list[Any],
    recorded: list[list[int]],
) -> None:
    """With both causes removed, no piece at all differs.

    The words are split as llama.cpp splits them, with the newer characters
    as symbols; and a byte without a token is dropped in a way that keeps its
    neighbours apart.
    """
    newer = corpus.NEWER_CHARACTERS
    letter = rf"[\p{{L}}&&[^{newer}]]"
    numeral = rf"[\p{{N}}&&[^{newer}]]"
    symbol = rf"(?:[^\s\p{{L}}\p{{N}}]|[{newer}])"
    words = (
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?{letter}+| ?{numeral}+| ?{symbol}+"
        r"|\s+(?!\S)|\s+"
    )
    missing = "".join(without_token(tokenizer))
    like_llama_cpp = altered(
        tokenizer,
        Split(Regex(numeral), "isolated"),
        Split(Regex(words), "isolated"),
        ByteLevel(add_prefix_space=False, use_regex=False),
        Split(Regex(f"[{missing}]"), "removed"),
    )
    found = differences(like_llama_cpp, pieces, recorded)
    assert not found, "\n".join(found.values())


def without_token(tokenizer: Tokenizer) -> list[str]:
    """Letters of the byte alphabet that are no token of the model."""
    vocabulary = tokenizer.get_vocab()
    return sorted(set(ByteLevel.alphabet()) - vocabulary.keys())


def test_characters_that_get_lost_are_the_ones_that_corpus_py_states(
    tokenizer: Tokenizer, corpus: ModuleType
) -> None:
    """All of ASCII, then every 61st character: each lead byte is there."""
    points = [*range(0x80), *range(0x80, 0xD800, 61)]
    points += range(0xE000, 0x110000, 61)
    lost = {i for i in points if not survives(tokenizer, chr(i))}
    stated = {ord(c) for c in corpus.CONTROLS_WITHOUT_TOKEN}
    stated |= {i for i in points if i in corpus.PLANES_WITHOUT_TOKEN}
    assert lost == stated


def survives(tokenizer: Tokenizer, text: str) -> bool:
    """Whether decoding the ids gives the text again."""
    return decode(tokenizer, encode(tokenizer, text)) == text


def test_decoding_gives_the_text_again(
    tokenizer: Tokenizer, corpus: ModuleType, pieces: list[Any]
) -> None:
    controls = dict.fromkeys(map(ord, corpus.CONTROLS_WITHOUT_TOKEN))
    texts = [
        piece.text.translate(controls)
        for piece in pieces
        if not any(ord(c) in corpus.PLANES_WITHOUT_TOKEN for c in piece.text)
    ]
    assert len(texts) > len(pieces) - 10
    assert [t for t in texts if not survives(tokenizer, t)] == []


def test_text_that_looks_like_a_special_token_is_ordinary(
    tokenizer: Tokenizer, scripts: dict[str, ModuleType], pieces: list[Any]
) -> None:
    special = {
        token.content: i
        for i, token in tokenizer.get_added_tokens_decoder().items()
        if token.special
    }
    assert set(special) == set(scripts["make_corpus"].SPECIAL_TOKENS)
    for text in special:
        ids = encode(tokenizer, f"{text} and{text}")
        assert not set(ids) & set(special.values())
        assert decode(tokenizer, ids) == f"{text} and{text}"
    written = "\n".join(piece.text for piece in pieces)
    assert all(written.count(text) >= 5 for text in special)


FAULTS: dict[str, tuple[list[PreTokenizer], str]] = {
    "no digit step": ([ByteLevel(add_prefix_space=False)], "digits"),
    "only ASCII digits": (
        [
            Split(Regex("[0-9]"), "isolated"),
            ByteLevel(add_prefix_space=False),
        ],
        "digits",
    ),
    "a space in front": (
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=True)],
        "prose",
    ),
    "no split into words": (
        [
            Digits(individual_digits=True),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ],
        "white_space",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_split_is_found_out(
    tokenizer: Tokenizer,
    pieces: list[Any],
    recorded: list[list[int]],
    fault: str,
) -> None:
    steps, block = FAULTS[fault]
    found = differences(altered(tokenizer, *steps), pieces, recorded)
    assert block in {pieces[i].block for i in found}


def test_recognized_special_tokens_are_found_out(
    tokenizer: Tokenizer, pieces: list[Any], recorded: list[list[int]]
) -> None:
    wrong = Tokenizer.from_str(tokenizer.to_str())
    assert wrong.encode_special_tokens is False
    found = differences(wrong, pieces, recorded)
    assert {"special", "mosaics"} <= {pieces[i].block for i in found}


def test_record_belongs_to_this_corpus_and_this_model(
    corpus: ModuleType,
    pieces: list[Any],
    recorded: list[list[int]],
    origin: dict[str, Any],
) -> None:
    source = find(DEFAULT).source
    assert isinstance(source, WheelSource)
    assert origin["gguf_sha256"] == source.member_pin.sha256
    assert origin["corpus_sha256"] == corpus.digest(pieces)
    assert origin["pieces"] == len(pieces) == len(recorded)
    assert origin["tokens"] == sum(map(len, recorded))


def test_corpus_is_what_make_corpus_makes(
    scripts: dict[str, ModuleType], pieces: list[Any]
) -> None:
    assert scripts["make_corpus"].build() == pieces


def test_corpus_is_large_and_of_every_kind(
    scripts: dict[str, ModuleType], pieces: list[Any]
) -> None:
    sizes = [len(piece.text.encode()) for piece in pieces]
    assert sum(sizes) >= 200_000
    assert min(sizes) == 1
    assert max(sizes) > 4000
    make_corpus = scripts["make_corpus"]
    blocks = {piece.block for piece in pieces}
    assert blocks == make_corpus.blocks()
    characters = Counter("".join(piece.text for piece in pieces))
    kinds: Counter[str] = Counter()
    for character, count in characters.items():
        kinds[unicodedata.category(character)] += count
        kinds[unicodedata.name(character, "?").split()[0]] += count
    rare = {kind: kinds[kind] for kind in KINDS if kinds[kind] < 30}
    assert not rare


KINDS = {
    *("ARABIC", "ARMENIAN", "BENGALI", "CJK", "CYRILLIC", "DEVANAGARI"),
    *("ETHIOPIC", "GEORGIAN", "GREEK", "GUJARATI", "GURMUKHI", "HANGUL"),
    *("HEBREW", "HIRAGANA", "KANNADA", "KATAKANA", "KHMER", "LAO", "LATIN"),
    *("MALAYALAM", "MYANMAR", "SINHALA", "TAMIL", "TELUGU", "THAI"),
    *("TIBETAN", "COMBINING", "EMOJI", "REGIONAL", "FULLWIDTH", "ROMAN"),
    *("SUPERSCRIPT", "VULGAR", "CIRCLED", "MATHEMATICAL", "ZERO"),
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"),
    *("Pc", "Pd", "Ps", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"),
    *("Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"),
}
"""First words of character names, and general categories."""
