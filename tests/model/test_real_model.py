"""The course's own model: our Llama against the library's and its answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from labkit import checkpoints, library
from labkit.agreement import NEAR_TIE, first_difference
from labkit.fused import fuse
from labkit.generation import generate
from labkit.kv_cache import PreallocatedCache
from labkit.library import LibraryModel
from labkit.llama import Llama
from labkit.text_model import TextModel

pytestmark = pytest.mark.model
END = frozenset({2})


@dataclass(frozen=True)
class Answer:
    """What transformers' `generate` said to a prompt when it was recorded."""

    name: str
    prompt: list[int]
    ids: list[int]


def recorded() -> list[Answer]:
    path = Path(__file__).with_name("answers.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    return [
        Answer(entry["name"], entry["prompt"], entry["answer"])
        for entry in document["answers"]
    ]


ANSWERS = recorded()


@pytest.fixture(scope="module")
def ours(text_model: TextModel) -> Llama:
    return Llama.of(text_model.model)


def assert_same(
    model: Llama, answer: Answer, made: list[int], by: str
) -> bool:
    """Equal tokens, or a near tie that this processor broke otherwise.

    Says whether they are equal.
    """
    found = first_difference(model, answer.prompt, answer.ids, made)
    if found is not None:
        print(f"{answer.name}, {by}: {found}")
        assert found.near_tie, f"{answer.name}, {by}: {found}"
    return found is None


def test_there_are_enough_prompts() -> None:
    assert len(ANSWERS) >= 20
    assert all(len(answer.ids) == 64 for answer in ANSWERS)
    lengths = {len(answer.prompt) for answer in ANSWERS}
    assert {1, 2, 17, 128} <= lengths


@pytest.mark.parametrize("length", [1, 2, 17, 128, 1000])
def test_logits_equal_the_librarys(
    text_model: TextModel, ours: Llama, length: int
) -> None:
    passage = max(ANSWERS, key=lambda answer: len(answer.prompt)).prompt
    ids = torch.tensor([(passage * 2)[:length]])
    with torch.inference_mode():
        expected = text_model.model(ids).logits
        gap = float((ours(ids) - expected).abs().max())
    assert gap < 5e-4


def test_all_answers_in_one_batch_with_left_padding(ours: Llama) -> None:
    """64 decode steps of all prompts but the two long ones at once."""
    answers = [a for a in ANSWERS if len(a.prompt) <= 128]
    longest = max(len(answer.prompt) for answer in answers)
    padding = torch.tensor([longest - len(a.prompt) for a in answers])
    rows = [[2] * (longest - len(a.prompt)) + a.prompt for a in answers]
    cache = PreallocatedCache(ours.config, longest + 64, len(answers))
    ids, made = torch.tensor(rows), []
    with torch.inference_mode():
        for _ in range(64):
            logits = ours(ids, cache, last_only=True, padding=padding)[:, -1]
            logits[:, list(END)] = -torch.inf
            ids = logits.argmax(dim=-1, keepdim=True)
            made.append(ids)
    together = torch.cat(made, dim=1).tolist()
    same = [
        assert_same(ours, answer, row, "in a batch")
        for answer, row in zip(answers, together, strict=True)
    ]
    assert same.count(False) <= 2


def test_every_recorded_token_is_the_best_after_what_came_before(
    ours: Llama,
) -> None:
    """Also those behind a near tie, where answers part for good."""
    for answer in ANSWERS:
        ids = torch.tensor([answer.prompt + answer.ids])
        with torch.inference_mode():
            logits = ours(ids)[0, len(answer.prompt) - 1 : -1]
            logits[:, list(END)] = -torch.inf
        said = logits.gather(1, torch.tensor(answer.ids)[:, None])[:, 0]
        gap = float((logits.amax(dim=1) - said).max())
        assert gap < NEAR_TIE, f"{answer.name}: {gap:.2g} behind the best"


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("labkit.llama", "passage, 300 tokens"),
        ("labkit.llama", "passage, 592 tokens"),
        ("library loop", "chat"),
        ("generate", "gravity"),
    ],
)
def test_an_answer_token_by_token(
    text_model: TextModel, ours: Llama, by: str, name: str
) -> None:
    answer = next(a for a in ANSWERS if a.name == name)
    library_model = text_model.model
    if by == "generate":
        made = library.generate(library_model, answer.prompt, 64).ids
    else:
        runner: Any = LibraryModel(library_model)
        if by == "labkit.llama":
            runner = ours
        made = generate(runner, answer.prompt, 64, never=END).ids
    assert_same(ours, answer, list(made), by)


def test_fused_weights_say_the_same(ours: Llama) -> None:
    answer = next(a for a in ANSWERS if a.name == "python")
    fused = fuse(Llama.load(checkpoints.model_folder()))
    made = generate(fused, answer.prompt, 64, never=END).ids
    assert_same(ours, answer, list(made), "fused weights")


def test_end_ids_of_the_model(model_home: Path) -> None:
    assert checkpoints.end_ids(root=model_home) == END


def write_ends(folder: Path, named: Any, token: Any) -> None:
    texts = {
        "generation_config.json": {"eos_token_id": named},
        "tokenizer_config.json": {"eos_token": token},
    }
    for name, document in texts.items():
        (folder / name).write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    ("named", "token", "expected"),
    [
        ([5, 6], "<|im_end|>", {2, 5, 6}),
        (5, "<|im_end|>", {2, 5}),
        (5, {"content": "<|im_start|>"}, {1, 5}),
        (None, None, set()),
    ],
    ids=str,
)
def test_end_ids_are_the_union(  # noqa: PLR0917 - three parameters
    model_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: Any,
    token: Any,
    expected: set[int],
) -> None:
    tokenizer = checkpoints.load_tokenizer(root=model_home)
    write_ends(tmp_path, named, token)
    monkeypatch.setattr(checkpoints, "require", lambda *_: tmp_path)
    monkeypatch.setattr(checkpoints, "load_tokenizer", lambda *_: tokenizer)
    assert checkpoints.end_ids() == expected
