"""Write answers.json: what transformers' `generate` says to each prompt.

    python tests/model/record_answers.py

It also runs the hand-written loop on the library's model and on ours, one
prompt at a time, and tells where any of the three part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prompts import LENGTHS, NEW_TOKENS, PASSAGE, TEXTS
from tqdm import tqdm

from labkit import checkpoints, library, machine
from labkit.agreement import first_difference
from labkit.generation import Model, generate
from labkit.library import LibraryModel
from labkit.llama import Llama

TARGET = Path(__file__).with_name("answers.json")


def prompts() -> Iterator[tuple[str, list[int]]]:
    """Name and token ids of every prompt."""
    tokenizer = checkpoints.load_tokenizer()
    for name, text in TEXTS.items():
        yield name, tokenizer.encode(text).ids
    passage = tokenizer.encode(PASSAGE.read_text(encoding="utf-8")).ids
    for length in LENGTHS:
        yield f"passage, {length} tokens", passage[:length]


def main() -> None:
    """Run all three on every prompt; write what the library said."""
    model = checkpoints.load_model()
    ours = Llama.of(model)
    runners: dict[str, Model] = {
        "library loop": LibraryModel(model),
        "labkit.llama": ours,
    }
    never = checkpoints.end_ids()
    answers: list[dict[str, Any]] = []
    for name, ids in tqdm(list(prompts())):
        expected = library.generate(model, ids, NEW_TOKENS).ids
        for runner, by in runners.items():
            made = generate(by, ids, NEW_TOKENS, never=never).ids
            found = first_difference(ours, ids, expected, made)
            if found is not None:
                print(f"{name}, {runner}: {found}")
        answers.append({"name": name, "prompt": ids, "answer": expected})
    document = {"machine": machine.identify().cpu, "answers": answers}
    text = json.dumps(document).replace('{"name"', '\n{"name"')
    TARGET.write_text(text + "\n", encoding="utf-8")
    print(f"{len(answers)} prompts, {NEW_TOKENS} new tokens each")


if __name__ == "__main__":
    main()
