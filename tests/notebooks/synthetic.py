"""A small lesson that follows every rule, with the outputs of its run."""

from __future__ import annotations

from typing import Any, TypeAlias

import nbformat
from nbformat import v4

from labkit.records import Record, bundle

Notebook: TypeAlias = Any
Cell: TypeAlias = Any
Output: TypeAlias = Any

# A white picture of one by one pixel.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEA"
    "G7buVgAAAABJRU5ErkJggg=="
)
ALT = "One white dot on a white ground, at the height of one unit."
CAPTION = "Figure 1. A dot."

IDS = Record("ids", [22007, 6463, 314], "", "exact")
COUNT = Record("new tokens", 16, "tokens", "exact")
LOGITS = Record("logits", [0.5, 1.25], "", "close", rtol=1e-4)
SECONDS = Record("seconds", 2.5, "s", "info")
SPEED = Record("speed", 4.5, "x", "ratio", low=2.0, high=6.0)

_FIGURE = f'''alt = "{ALT}"
data = {{"image/png": PNG, "text/plain": alt}}
about = {{"image/png": {{"alt": alt}}}}
display(data, raw=True, metadata=about)
caption = "{CAPTION}"
line = {{"text/markdown": f"*{{caption}}*", "text/plain": caption}}
display(line, raw=True)'''


def lesson() -> Notebook:
    """A new notebook in normal form, all cells executed."""
    notebook = v4.new_notebook()
    notebook.metadata.kernelspec = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata.language_info = {"name": "python"}
    notebook.cells = [
        _text("title", "# One dot\n\nA lesson about nothing much."),
        _text("question", "## Question\n\nHow high is one dot?"),
        _text("set-up", "## Set up"),
        _code("imports", _imports()),
        _text("predict", "## Predict"),
        _code("guess", "print('no prediction')", [_stdout("no prediction\n")]),
        _text("build", "## Build"),
        _records_cell("token-ids", [IDS, COUNT]),
        _text("check", "## Check\n\nHere $n! > 2^n$ and `a != b`."),
        _records_cell("compare-logits", [LOGITS]),
        _code("refusal", _refusal(), [_error()], ["raises-exception"]),
        _text("measure", "## Measure"),
        _records_cell("time-it", [SECONDS, SPEED]),
        _text("compare", "## Compare"),
        _code("draw", _FIGURE, figure()),
        _text("explain", "## Explain"),
        _text("extend", "## Extend"),
        _code("table", "1 + 1", [_result("2")], ["check-exact"]),
        _text("recap", "## Recap and reading\n\n![a dot](dot.png)"),
    ]
    _number(notebook)
    return notebook


def cell_of(notebook: Notebook, cell_id: str) -> Cell:
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def shown(record: Record) -> Output:
    """The output that displays a record."""
    return v4.new_output("display_data", data=bundle(record))


def figure() -> list[Output]:
    """The outputs of a figure and its caption."""
    data = {"image/png": PNG, "text/plain": ALT}
    line = {"text/markdown": f"*{CAPTION}*", "text/plain": CAPTION}
    return [
        v4.new_output(
            "display_data", data=data, metadata={"image/png": {"alt": ALT}}
        ),
        v4.new_output("display_data", data=line),
    ]


def stderr(text: str) -> Output:
    return v4.new_output("stream", name="stderr", text=text)


def _text(cell_id: str, source: str) -> Cell:
    return v4.new_markdown_cell(source, id=cell_id)


def _code(
    cell_id: str,
    source: str,
    outputs: list[Output] | None = None,
    tags: list[str] | None = None,
) -> Cell:
    cell = v4.new_code_cell(source, id=cell_id, outputs=outputs or [])
    if tags:
        cell.metadata.tags = tags
    return cell


def _records_cell(cell_id: str, records: list[Record]) -> Cell:
    source = "\n".join(map(_record_source, records))
    return _code(cell_id, source, [shown(record) for record in records])


def _record_source(record: Record) -> str:
    bounds = {"close": ("rtol", "atol"), "ratio": ("low", "high")}
    keywords = "".join(
        f", {name}={getattr(record, name)!r}"
        for name in bounds.get(record.rule, ())
    )
    return (
        f"display(bundle(Record({record.name!r}, {record.value!r},\n"
        f"    {record.unit!r}, {record.rule!r}{keywords})), raw=True)"
    )


def _imports() -> str:
    half = len(PNG) // 2
    return (
        "from IPython.display import display\n"
        "from labkit.errors import LabError\n"
        "from labkit.records import Record, bundle\n"
        f'PNG = ("{PNG[:half]}"\n       "{PNG[half:]}")'
    )


def _refusal() -> str:
    return "raise LabError('A dot has one height; ask for one.')"


def _error() -> Output:
    said = "A dot has one height; ask for one."
    return v4.new_output(
        "error", ename="LabError", evalue=said, traceback=[said]
    )


def _stdout(text: str) -> Output:
    return v4.new_output("stream", name="stdout", text=text)


def _result(text: str) -> Output:
    return v4.new_output("execute_result", data={"text/plain": text})


def _number(notebook: Notebook) -> None:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    nbformat.validate(notebook)
