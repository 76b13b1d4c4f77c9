"""Each rule passes a good lesson and names the cell of a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import v4

from labkit.execution import WIDGET_VIEW
from labkit.records import MIME, Record

from .anatomy import RULES, Notebook, no_places
from .synthetic import cell_of, lesson, shown, stderr

Fault = Callable[[Notebook], None]


@pytest.mark.parametrize("rule", RULES)
def test_a_good_lesson_breaks_no_rule(rule: str) -> None:
    assert RULES[rule](lesson()) == []


def source(cell_id: str, text: str) -> Fault:
    def plant(notebook: Notebook) -> None:
        cell_of(notebook, cell_id).source = text

    return plant


def metadata(cell_id: str, **values: object) -> Fault:
    def plant(notebook: Notebook) -> None:
        cell_of(notebook, cell_id).metadata.update(values)

    return plant


def output(cell_id: str, extra: object) -> Fault:
    def plant(notebook: Notebook) -> None:
        cell_of(notebook, cell_id).outputs.append(extra)

    return plant


def printed(cell_id: str, text: str) -> Fault:
    return output(cell_id, v4.new_output("stream", name="stdout", text=text))


def edit(cell_id: str, change: Fault) -> Fault:
    return lambda notebook: change(cell_of(notebook, cell_id))


def remove(cell_id: str) -> Fault:
    return lambda notebook: notebook.cells.remove(cell_of(notebook, cell_id))


def swap(first: str, second: str) -> Fault:
    def plant(notebook: Notebook) -> None:
        one, two = cell_of(notebook, first), cell_of(notebook, second)
        one.source, two.source = two.source, one.source

    return plant


def renamed(cell_id: str, name: str) -> Fault:
    return edit(cell_id, lambda cell: cell.update(id=name))


def set_alt(text: str) -> Fault:
    def change(cell: Notebook) -> None:
        cell.outputs[0].data["text/plain"] = text
        cell.outputs[0].metadata["image/png"]["alt"] = text

    return edit("draw", change)


def no_more_exact(notebook: Notebook) -> None:
    cell_of(notebook, "token-ids").outputs = []


def silence(notebook: Notebook) -> None:
    for name in ("guess", "token-ids", "compare-logits", "draw"):
        cell_of(notebook, name).outputs = []


def widget_view(notebook: Notebook) -> None:
    view = {"version_major": 2, "version_minor": 0, "model_id": "84e4947c"}
    data = {WIDGET_VIEW: view, "text/plain": "IntSlider(value=2)"}
    shown_view = v4.new_output("display_data", data=data)
    cell_of(notebook, "guess").outputs.append(shown_view)


def set_record(cell_id: str, **fields: object) -> Fault:
    return edit(
        cell_id, lambda cell: cell.outputs[0].data[MIME].update(fields)
    )


FAULTS: list[tuple[str, str, Fault]] = [
    ("valid", "notebook", lambda nb: nb.update(nbformat_minor=4)),
    ("valid", "notebook", edit("guess", lambda c: c.pop("outputs"))),
    ("title", "title", source("title", "One dot")),
    ("title", "title", source("title", "```\n# a comment\n```")),
    ("title", "explain", source("explain", "## Explain\n\n# Again")),
    ("sections", "measure", source("measure", "## Measuring")),
    ("sections", "compare", source("measure", "### Measure")),
    ("sections", "predict", swap("predict", "build")),
    ("sections", "notebook", source("recap", "The end.")),
    (
        "sections",
        "explain",
        source("explain", "## Explain\n## A"),
    ),
    ("sections", "recap", source("recap", "## Recap and reading\n\n## More")),
    ("short", "guess", source("guess", "\n".join("x = 1" for _ in range(26)))),
    ("short", "guess", source("guess", "x = '" + "x" * 75 + "'")),
    (
        "executed",
        "guess",
        edit("guess", lambda c: c.update(execution_count=9)),
    ),
    (
        "executed",
        "guess",
        edit("guess", lambda c: c.update(execution_count=None)),
    ),
    ("executed", "guess", source("guess", "  \n")),
    ("undated", "guess", metadata("guess", execution={"iopub.status": "2"})),
    ("undated", "set-up", metadata("set-up", ExecuteTime={})),
    ("undated", "guess", printed("guess", "done 2026-01-02T03:04:05\n")),
    ("undated", "guess", printed("guess", "[02/Jan/2026 03:04:05] GET\n")),
    ("undated", "guess", printed("guess", "Fri, 02 Jan 2026 03:04:05 GMT")),
    (
        "no_widget_state",
        "notebook",
        lambda nb: nb.metadata.update(widgets={"state": {}}),
    ),
    ("no_errors", "refusal", metadata("refusal", tags=[])),
    ("no_errors", "guess", metadata("guess", tags=["raises-exception"])),
    ("no_warnings", "guess", output("guess", stderr("careful\n"))),
    ("no_warnings", "guess", printed("guess", "x.py: UserWarning: old\n")),
    ("no_places", "guess", source("guess", "open('/home/ada/x')")),
    ("no_places", "explain", source("explain", "## Explain\n\n/Users/ada/x")),
    ("no_places", "guess", printed("guess", "saved in /tmp/x\n")),
    ("no_places", "guess", printed("guess", "/root/.cache/m\n")),
    ("no_places", "guess", printed("guess", "at /work\n")),
    ("no_places", "guess", printed("guess", "/var/folders/zz/x\n")),
    ("no_places", "guess", printed("guess", r"C:\Users\ada")),
    ("no_places", "guess", printed("guess", r"['D:\\lab\\x']")),
    (
        "no_places",
        "compare-logits",
        set_record("compare-logits", value="/home/ada"),
    ),
    ("no_addresses", "guess", printed("guess", "<f at 0x7f12ab34cd56>")),
    ("figures", "draw", set_alt("<Figure size 400x300 with 1 Axes>")),
    ("quiet", "guess", printed("guess", "Too noisy to quote: drift\n")),
    ("quiet", "guess", printed("guess", "1.2 of the work: not fit to quote")),
    ("figures", "draw", set_alt("A dot.")),
    ("figures", "draw", edit("draw", lambda c: c.outputs.pop(1))),
    (
        "figures",
        "draw",
        edit("draw", lambda c: c.outputs[0].metadata.pop("image/png")),
    ),
    ("ids", "guess", renamed("imports", "guess")),
    ("ids", "3f9a1c22", renamed("guess", "3f9a1c22")),
    (
        "ids",
        "3f9a1c22-77ab-4c1e-9d00-2b6f5a3e8c11",
        renamed("guess", "3f9a1c22-77ab-4c1e-9d00-2b6f5a3e8c11"),
    ),
    ("ids", "Guess", renamed("guess", "Guess")),
    ("records", "notebook", no_more_exact),
    ("records", "token-ids", set_record("token-ids", rule="strict")),
    ("records", "token-ids", set_record("token-ids", value=[22007, 1, 314])),
    (
        "records",
        "guess",
        output("guess", shown(Record("ids", 1, rule="exact"))),
    ),
    ("shows", "draw", silence),
    ("plain_prose", "explain", source("explain", "## Explain\n\nSo fast!")),
    (
        "plain_prose",
        "explain",
        source("explain", "## Explain\n\nFast \U0001f680"),
    ),
    ("known_tags", "table", metadata("table", tags=["check-exect"])),
    ("normal_form", "guess", printed("guess", "a second piece\n")),
    ("normal_form", "guess", widget_view),
    (
        "normal_form",
        "notebook",
        lambda nb: nb.metadata.language_info.update(version="3.11.2"),
    ),
]


@pytest.mark.parametrize(
    ("rule", "where", "plant"),
    FAULTS,
    ids=[f"{rule}-{where}-{n}" for n, (rule, where, _) in enumerate(FAULTS)],
)
def test_a_fault_is_found_and_its_cell_named(
    rule: str, where: str, plant: Fault
) -> None:
    notebook = lesson()
    plant(notebook)
    found = RULES[rule](notebook)
    assert any(text.startswith(f"{where}: ") for text in found), found


def test_every_rule_has_a_fault() -> None:
    assert {rule for rule, _, _ in FAULTS} == set(RULES)


def test_long_cells_break_the_median() -> None:
    notebook = lesson()
    for name in ("imports", "guess", "token-ids", "refusal", "draw", "table"):
        source(name, "\n".join("x = 1" for _ in range(9)))(notebook)
    assert any("median" in text for text in RULES["short"](notebook))


def test_the_repository_is_a_place_too() -> None:
    notebook = lesson()
    printed("guess", "in /srv/course/data\n")(notebook)
    assert no_places(notebook) == []
    assert no_places(notebook, Path("/srv/course")) == [
        "guess: path '/srv/course' in an output"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/home/page and https://example.org/tmp",
        "GET /generate, POST /health, notebooks/work/x",
        "the ratio a/work and ~/tmp",
        "step 1: load, step 2: C: is a drive",
    ],
)
def test_what_only_looks_like_a_place(text: str) -> None:
    notebook = lesson()
    printed("guess", text)(notebook)
    assert no_places(notebook, Path("/srv/course")) == []


@pytest.mark.parametrize(
    "text",
    [
        "`not x!`, and ``a ` b!``",
        "```python\nprint('done!')\n```",
        "$$n! \\approx \\sqrt{2 \\pi n}$$",
        "<!-- to do! -->",
        "![a dot](dot.png) and [a link](https://example.org/!/x)",
    ],
)
def test_prose_without_code_and_formulas(text: str) -> None:
    notebook = lesson()
    source("explain", f"## Explain\n\n{text}")(notebook)
    assert RULES["plain_prose"](notebook) == []
