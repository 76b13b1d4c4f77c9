"""What every lesson looks like, as rules that need no kernel.

A rule takes a notebook and returns one sentence for each breach; each
sentence starts with the id of the cell it is about. `RULES` has them all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import nbformat

from labkit.execution import normalise
from labkit.records import MIME, describe, from_json, records_of

Notebook: TypeAlias = Any
Cell: TypeAlias = Any
Output: TypeAlias = Any
Rule: TypeAlias = Callable[[Notebook], list[str]]

REPOSITORY = Path(__file__).parents[2]
SECTIONS = (
    "Question",
    "Set up",
    "Predict",
    "Build",
    "Check",
    "Measure",
    "Compare",
    "Explain",
    "Extend",
    "Recap and reading",
)
TAGS = frozenset({"check-exact", "raises-exception"})
MEDIAN_LINES, MOST_LINES, COLUMNS = 8, 25, 79

_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*$")
_PLACE = re.compile(
    r"(?<![\w.~-])/(?:home|Users)/\w+"
    r"|(?<![\w.~-])/(?:root|tmp|work|private|var/folders)(?![\w.-])"
    r"|\b[A-Za-z]:\\+\w+",
)
_DATE_AND_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d"  # ISO 8601
    r"|\d\d/[A-Z][a-z]{2}/\d{4}[ :]\d\d:\d\d"  # server logs
    r"|\d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d"  # HTTP headers
)
_WARNING = re.compile(r"\b\w*Warning\b|\bWARNING\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_DOUBT = re.compile(r"\b(?:too noisy|not fit) to quote", re.IGNORECASE)
_READABLE_ID = re.compile(r"(?=.*[a-z])[a-z0-9]+(?:[-_][a-z0-9]+)*")
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]+)?")
_CAPTION = re.compile(r"\W*Figure \d+\. \S")
_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u27bf\u2b50\u2b55\ufe0f\u203c\u2049]"
)
# Left out before prose is looked at: code, formulas, comments, link targets
# and the mark that begins an image.
_NOT_PROSE = re.compile(
    r"(?ms)^ {0,3}(```|~~~).*?^ {0,3}\1|(`+)(?!`).+?(?<!`)\2(?!`)"
    r"|\$\$.*?\$\$|\$[^$\n]+\$"
    r"|<!--.*?-->|\]\([^)]*\)|!(?=\[)"
)


def valid(notebook: Notebook) -> list[str]:
    """The notebook follows the schema of its format, 4.5 or later."""
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        return ["notebook: format 4.5 or later is needed for cell ids"]
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        return [f"notebook: {str(error).partition(chr(10))[0]}"]
    return []


def title(notebook: Notebook) -> list[str]:
    """The first cell begins with the one level-1 title."""
    titles = [where for level, _, where in headings(notebook) if level == 1]
    first = notebook.cells[0] if notebook.cells else None
    if first is None or titles[:1] != [first.id]:
        return [f"{_name(first)}: the first cell has no level-1 title"]
    return [f"{where}: a second level-1 title" for where in titles[1:]]


def sections(notebook: Notebook) -> list[str]:
    """The ten level-2 headings, each once, in order, exactly so named."""
    found = [
        (text, at) for level, text, at in headings(notebook) if level == 2
    ]
    for number, expected in enumerate(SECTIONS):
        text, where = (
            found[number] if number < len(found) else ("missing", "notebook")
        )
        if text != expected:
            return [
                f"{where}: section {number + 1} is {text!r} and must be"
                f" {expected!r}"
            ]
    return [
        f"{where}: section {text!r} is one too many"
        for text, where in found[len(SECTIONS) :]
    ]


def short(notebook: Notebook) -> list[str]:
    """Code: median length 8 lines, none over 25, no line over 79 columns."""
    lines = {c.id: c.source.split("\n") for c in code_cells(notebook)}
    lengths = {where: len(source) for where, source in lines.items()}
    found = [
        f"{where}: {length} lines, at most {MOST_LINES}"
        for where, length in lengths.items()
        if length > MOST_LINES
    ]
    found += [
        f"{where}: line {number} has {len(line)} columns, at most {COLUMNS}"
        for where, source in lines.items()
        for number, line in enumerate(source, 1)
        if len(line) > COLUMNS
    ]
    if lengths and median(lengths.values()) > MEDIAN_LINES:
        longest = max(lengths, key=lambda where: lengths[where])
        found.append(
            f"{longest}: the longest; the median cell has"
            f" {median(lengths.values()):g} lines, at most {MEDIAN_LINES}"
        )
    return found


def executed(notebook: Notebook) -> list[str]:
    """Every code cell has code and was run, from top to bottom, once."""
    found = []
    for number, cell in enumerate(code_cells(notebook), 1):
        if not cell.source.strip():
            found.append(f"{cell.id}: an empty code cell")
        elif cell.execution_count != number:
            found.append(
                f"{cell.id}: execution count {cell.execution_count}, must be"
                f" {number}"
            )
    return found


def undated(notebook: Notebook) -> list[str]:
    """No time stamp in metadata or outputs: they differ at every run."""
    found = [
        f"{cell.id}: time stamps in the cell's metadata ({key})"
        for cell in notebook.cells
        for key in ("execution", "ExecuteTime")
        if key in cell.metadata
    ]
    return found + _in_outputs(notebook, _DATE_AND_TIME, "time stamp")


def no_widget_state(notebook: Notebook) -> list[str]:
    """No saved state of widgets, which is long and random."""
    if "widgets" in notebook.metadata:
        return ["notebook: widget state in the metadata"]
    return []


def no_errors(notebook: Notebook) -> list[str]:
    """Errors where, and only where, the tag raises-exception stands."""
    found = []
    for cell in code_cells(notebook):
        raised = [o for o in cell.outputs if o.output_type == "error"]
        expected = "raises-exception" in tags_of(cell)
        if raised and not expected:
            found.append(f"{cell.id}: shows the error {raised[0].ename}")
        if expected and not raised:
            found.append(f"{cell.id}: is tagged to raise and raises nothing")
    return found


def no_warnings(notebook: Notebook) -> list[str]:
    """Nothing on stderr, and no warning in any output."""
    found = [
        f"{cell.id}: writes to stderr: {output.text.strip()[:80]!r}"
        for cell in code_cells(notebook)
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
    return found + _in_outputs(notebook, _WARNING, "warning")


def no_places(notebook: Notebook, repository: Path = REPOSITORY) -> list[str]:
    """No path of anyone's machine, in sources or outputs."""
    own = re.escape(str(repository))
    pattern = re.compile(f"{own}|{_PLACE.pattern}")
    found = [
        f"{cell.id}: path {match.group()!r} in the source"
        for cell in notebook.cells
        if (match := pattern.search(cell.source))
    ]
    return found + _in_outputs(notebook, pattern, "path")


def no_addresses(notebook: Notebook) -> list[str]:
    """No memory address in an output: it differs at every run."""
    return _in_outputs(notebook, _ADDRESS, "memory address")


def quiet(notebook: Notebook) -> list[str]:
    """No output says that its own measurement is not to be compared with."""
    return _in_outputs(notebook, _DOUBT, "a measurement with the remark")


def figures(notebook: Notebook) -> list[str]:
    """Each picture has an alternative text and a caption below it.

    The sentence stands in the output's text/plain and again as `alt` in
    the picture's metadata; the next output of the cell is text/markdown
    that begins with "Figure N.".
    """
    found = []
    for cell in code_cells(notebook):
        for position, output in enumerate(cell.outputs):
            kind = _picture(output)
            if kind is None:
                continue
            alt = output.data.get("text/plain", "")
            if not _is_sentence(alt):
                found.append(
                    f"{cell.id}: a figure's text/plain must be a sentence"
                    f" that says what it shows, not {alt[:40]!r}"
                )
            if output.metadata.get(kind, {}).get("alt") != alt:
                found.append(
                    f"{cell.id}: a figure's metadata has no alt text equal"
                    " to its text/plain"
                )
            below = cell.outputs[position + 1 : position + 2]
            if not (below and _CAPTION.match(_markdown(below[0]))):
                found.append(
                    f"{cell.id}: no caption 'Figure N. ...' below a figure"
                )
    return found


def ids(notebook: Notebook) -> list[str]:
    """Cell ids are unique, readable words, and not random hexadecimals."""
    counts = Counter(cell.id for cell in notebook.cells)
    found = [f"{name}: {n} cells" for name, n in counts.items() if n > 1]
    return found + [
        f"{name}: not a readable id such as 'load-model'"
        for name in counts
        if _RANDOM_ID.fullmatch(name) or not _READABLE_ID.fullmatch(name)
    ]


def records(notebook: Notebook) -> list[str]:
    """Well formed, shown as stored, named once, and at least one exact."""
    try:
        found = records_of(notebook)
    except ValueError as error:
        return [str(error).removeprefix("Cell ")]
    owners = [(r.name, where) for where, rs in found.items() for r in rs]
    counts = Counter(name for name, _ in owners)
    twice = [
        f"{where}: the record {name!r} has a name that is used twice"
        for name, where in owners
        if counts[name] > 1
    ]
    exact = any(r.rule == "exact" for rs in found.values() for r in rs)
    none = [] if exact else ["notebook: no exact record"]
    return twice + _shown_otherwise(notebook) + none


def shows(notebook: Notebook) -> list[str]:
    """More than half of the code cells show something."""
    silent = [cell.id for cell in code_cells(notebook) if not cell.outputs]
    total = len(code_cells(notebook))
    if 2 * len(silent) < total:
        return []
    return [
        f"{where}: shows nothing, as do {len(silent)} of {total} code cells"
        for where in silent or ["notebook"]
    ]


def plain_prose(notebook: Notebook) -> list[str]:
    """No exclamation mark and no emoji in the text."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        prose = _NOT_PROSE.sub(" ", cell.source)
        if "!" in prose:
            found.append(f"{cell.id}: an exclamation mark in the text")
        if match := _EMOJI.search(prose):
            found.append(f"{cell.id}: the emoji {match.group()!r}")
    return found


def known_tags(notebook: Notebook) -> list[str]:
    """Only tags that mean something here; a misspelt one checks nothing."""
    return [
        f"{cell.id}: unknown tag {tag!r}"
        for cell in notebook.cells
        for tag in tags_of(cell)
        if tag not in TAGS
    ]


def normal_form(notebook: Notebook) -> list[str]:
    """The file is what `python -m labkit rerun` writes, save the values."""
    normal = normalise(notebook, notebook)
    found = [
        f"{cell.id}: not in the form that `labkit rerun` writes (streams,"
        " progress bars, widget ids, metadata)"
        for cell, other in zip(notebook.cells, normal.cells, strict=True)
        if cell != other
    ]
    if notebook.metadata != normal.metadata:
        found.append(
            "notebook: its metadata is not what `labkit rerun` writes"
        )
    return found


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        valid,
        title,
        sections,
        short,
        executed,
        undated,
        no_widget_state,
        no_errors,
        no_warnings,
        no_places,
        no_addresses,
        quiet,
        figures,
        ids,
        records,
        shows,
        plain_prose,
        known_tags,
        normal_form,
    )
}


def code_cells(notebook: Notebook) -> list[Cell]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags_of(cell: Cell) -> list[str]:
    return list(cell.metadata.get("tags", []))


def headings(notebook: Notebook) -> Iterator[tuple[int, str, str]]:
    """Level, text and cell id of each heading, outside code fences."""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        fenced = False
        for line in cell.source.split("\n"):
            if _FENCE.match(line):
                fenced = not fenced
            elif not fenced and (match := _HEADING.match(line)):
                yield len(match[1]), match[2], cell.id


def texts(output: Output) -> Iterator[str]:
    """Every text in an output; pictures in base64 hold none."""
    if output.output_type == "stream":
        yield output.text
    elif output.output_type == "error":
        yield from (output.evalue, *output.traceback)
    else:
        for kind, data in output.data.items():
            if not kind.startswith("image/") or kind == "image/svg+xml":
                yield data if isinstance(data, str) else repr(data)


def _in_outputs(
    notebook: Notebook, pattern: re.Pattern[str], what: str
) -> list[str]:
    return [
        f"{cell.id}: {what} {match.group()!r} in an output"
        for cell in code_cells(notebook)
        for output in cell.outputs
        for text in texts(output)
        if (match := pattern.search(text))
    ]


def _shown_otherwise(notebook: Notebook) -> list[str]:
    """Records whose readable line is not the one their data gives."""
    return [
        f"{cell.id}: shows {shown!r} for a record of {line!r}"
        for cell in code_cells(notebook)
        for output in cell.outputs
        if MIME in (data := output.get("data", {}))
        and (shown := data.get("text/plain"))
        != (line := describe(from_json(data[MIME])))
    ]


def _picture(output: Output) -> str | None:
    kinds = output.get("data", {})
    return next((kind for kind in kinds if kind.startswith("image/")), None)


def _markdown(output: Output) -> str:
    return str(output.get("data", {}).get("text/markdown", ""))


def _is_sentence(text: str) -> bool:
    return len(text.split()) >= 4 and text[0].isupper() and text[-1] == "."


def _name(cell: Cell | None) -> str:
    return "notebook" if cell is None else str(cell.id)
