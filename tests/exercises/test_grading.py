"""One notebook checked, many graded, tampering included."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labkit.errors import LabError
from labkit.exercises import Report, RunLimits, check, grade, grading
from labkit.exercises.grading import submissions
from labkit.exercises.judging import judge
from labkit.exercises.reports import write_reports

LIMITS = RunLimits(cell_s=30, total_s=90, output_bytes=200_000)
IMPATIENT = RunLimits(cell_s=1, total_s=90, output_bytes=200_000)
WRONG = "def double(n):\n    return n + 2"
HALF = "def double(n):\n    return 2 * n"


def points(report: Report) -> dict[str, float | None]:
    return {result.grade_id: result.points for result in report.results}


@pytest.fixture
def checked(course: Any, tmp_path: Path) -> Callable[[Any], Report]:
    """What check says of a notebook of the toy lesson."""

    def run(nb: Any) -> Report:
        path = course.hand_in(tmp_path / "work" / "mine.ipynb", nb)
        return check("07", path, course.root, LIMITS)

    return run


@pytest.fixture
def checked_impatiently(
    course: Any, tmp_path: Path
) -> Callable[[Any], Report]:
    """The same with little time for a cell."""

    def run(nb: Any) -> Report:
        path = course.hand_in(tmp_path / "work" / "mine.ipynb", nb)
        return check("07", path, course.root, IMPATIENT)

    return run


def test_a_right_submission_gets_everything(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    report = checked(course.solved())
    assert points(report) == {
        "test_double": 2,
        "test_refused": 1,
        "test_names": 3,
    }
    assert report.passed
    assert report.notes == ()
    assert report.summary() == "Lesson 07: 6 of 6 points."


def test_the_symptom_is_told_and_the_answer_is_not(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    report = checked(course.solved(double=HALF, names="names = ['a', 'b']"))
    found = {r.grade_id: (r.status, r.symptom) for r in report.results}
    assert found == {
        "test_double": ("passed", ""),
        "test_refused": ("failed", "a negative number was taken"),
        "test_names": (
            "failed",
            "the names are ['a', 'b']; this check is one of those that are"
            " not on the page",
        ),
    }
    text = report.text() + report.markdown() + json.dumps(report.document())
    for secret in ("SECRET", "42", "assert", "second"):
        assert secret not in text


def test_an_untouched_copy_is_not_done_rather_than_failed(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    nb = course.solved()
    for name in ("double", "names"):
        course.cell(nb, name).source = "raise NotImplementedError()"
    report = checked(nb)
    assert {r.status for r in report.results} == {"not done"}
    assert report.points == 0
    assert report.notes == ()


def test_an_error_names_the_learner_s_line(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    report = checked(
        course.solved(double="def double(n):\n    return n / 0", names="x = (")
    )
    first, _, third = report.results
    assert first.symptom == (
        "ZeroDivisionError: division by zero (line 2 of your cell double)"
    )
    assert third.symptom == ("not run: your cell names did not run to its end")
    (note,) = report.notes
    text = report.text()
    assert text.index("SyntaxError") < text.index("not run")
    assert note.startswith("Cell names: SyntaxError: ")
    assert "ipython-input" not in note
    assert note.endswith("(line 1 of your cell names).")


def test_a_visible_check_that_fails_is_not_called_hidden(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    report = checked(course.solved(names="names = ['a']"))
    assert report.results[2].symptom == "1 names instead of 2"


def test_another_name_is_told(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = "FOUR = 4\n\n\ndef twice(n):\n    return n + n"
    report = checked(course.solved(double=answer))
    assert report.results[0].symptom == (
        "NameError: name 'double' is not defined; your cell double defines"
        " FOUR, twice"
    )
    # The stub of another cell has nothing to do with it.
    report = checked(course.solved(double=answer, names="1 / 0"))
    assert report.results[0].status == "failed"
    assert "defines FOUR" in report.results[0].symptom
    report = checked(course.solved(double="!true\ndef twice(n): return n"))
    assert report.results[0].symptom.endswith("'double' is not defined")


def test_a_stub_that_is_still_reached_is_told(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = "def double(n):\n    2 * n\n    raise NotImplementedError()"
    report = checked(course.solved(double=answer))
    first = report.results[0]
    assert first.status == "not done"
    assert "your cell double still raises NotImplementedError (line 3)" in (
        first.symptom
    )


def test_a_stub_above_an_answer_is_told(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = "raise NotImplementedError()\nnames = ['first', 'second']"
    report = checked(course.solved(names=answer))
    assert report.results[2].symptom == (
        "your cell names still raises NotImplementedError (line 1): take that"
        " line out"
    )


def test_of_an_untouched_answer_nothing_is_told(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    stub = "# YOUR CODE HERE\nraise NotImplementedError()"
    nb = course.solved(names=stub)
    nb.cells.append(course.own_cell("x = 1"))
    third = checked(nb).results[2]
    assert (third.status, third.symptom) == ("not done", "")


def test_wrong_indentation_names_the_learner_s_line(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = "def double(n):\n    if n:\n        return n\n  return n"
    nb = course.solved(double=answer)
    nb.cells.append(course.own_cell("1 / 0"))
    first, second = checked(nb).notes
    assert first.startswith("Cell double: IndentationError: ")
    assert first.endswith("(line 4 of your cell double).")
    assert second.startswith(f"Cell {len(nb.cells)}: ZeroDivisionError")


def test_a_stub_that_was_left_below_an_answer_is_told(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = "names = ['first', 'second']\nraise NotImplementedError()"
    report = checked(course.solved(names=answer))
    assert report.passed
    (note,) = report.notes
    assert "Cell names passes tests, but still raises" in note


def test_notes_of_an_error_are_told(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = (
        "def double(n):\n"
        "    error = ValueError('no')\n"
        "    error.add_note('for 4')\n"
        "    raise error"
    )
    report = checked(course.solved(double=answer))
    assert report.results[0].symptom.startswith("ValueError: no (for 4)")


def test_a_cell_that_is_stopped_is_told_at_once(
    course: Any, tmp_path: Path
) -> None:
    path = course.hand_in(
        tmp_path / "x.ipynb",
        course.solved(double="def double(n):\n    while True:\n        pass"),
    )
    said: list[str] = []
    check("07", path, course.root, RunLimits(cell_s=1), said.append)
    assert said == [
        "test_double: it did not end within 1 s",
        "test_refused: it did not end within 1 s",
    ]
    said.clear()
    limits = RunLimits(cell_s=1, overruns=1)
    report = check("07", path, course.root, limits, said.append)
    assert said == ["test_double: it did not end within 1 s"]
    assert [r.status for r in report.results] == ["failed", "failed", "passed"]
    assert "another test of this exercise" in report.results[1].symptom


def test_a_helper_in_a_cell_of_its_own_counts(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    answer = "def double(n):\n    return twice(n)"
    nb = course.solved(double=answer)
    helper = (
        "def twice(n):\n"
        "    if n < 0:\n"
        "        raise Refused\n"
        "    return n * FACTOR"
    )
    nb.cells.insert(4, course.own_cell(helper))
    assert checked(nb).passed


def test_checking_leaves_the_notebook_as_it_is(
    course: Any, tmp_path: Path
) -> None:
    nb = course.solved(names="open('made.txt', 'w').close()\nnames = 'ab'")
    path = course.hand_in(tmp_path / "work" / "mine.ipynb", nb)
    before = path.read_bytes()
    check("07", path, course.root, LIMITS)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["mine.ipynb"]


def test_checking_what_is_no_notebook_is_one_sentence(
    course: Any, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match="There is no file"):
        check("07", tmp_path / "none.ipynb", course.root)


def test_a_person_s_points_are_left_open(
    make_toy: Callable[..., Any], tmp_path: Path
) -> None:
    toy = make_toy(with_manual=True)
    path = toy.hand_in(tmp_path / "mine.ipynb", toy.solved())
    report = check("07", path, toy.root, LIMITS)
    assert points(report)["why"] is None
    assert report.summary() == (
        "Lesson 07: 6 of 6 points, and 4 for a person to give."
    )
    assert report.passed


def test_needed_files_are_there(
    make_toy: Callable[..., Any], tmp_path: Path
) -> None:
    toy = make_toy(files=[("names.txt", "first second")])
    nb = toy.solved(names="names = open('names.txt').read().split()")
    path = toy.hand_in(tmp_path / "mine.ipynb", nb)
    assert check("07", path, toy.root, LIMITS).passed


# Tampering: the answer to `double` is wrong, that to `names` right, unless
# said otherwise; each changes a copy so that more might seem to pass.


def edit_tests(toy: Any, nb: Any) -> None:
    for cell in nb.cells:
        if cell.id.startswith("test_"):
            cell.source = "pass"


def delete_tests(toy: Any, nb: Any) -> None:
    nb.cells = [c for c in nb.cells if not c.id.startswith("test_")]


def rename_tests(toy: Any, nb: Any) -> None:
    for cell in nb.cells:
        if cell.id.startswith("test_"):
            cell.metadata["nbgrader"]["grade_id"] += "_mine"
            cell.source = "pass"


def copy_tests(toy: Any, nb: Any) -> None:
    for cell in [c for c in nb.cells if c.id.startswith("test_")]:
        twin = toy.pasted(cell)
        twin.source = "pass"
        nb.cells.append(twin)


def raise_points(toy: Any, nb: Any) -> None:
    for cell in nb.cells:
        if cell.id.startswith("test_"):
            cell.metadata["nbgrader"]["points"] = 1000


def turn_tests_into_answers(toy: Any, nb: Any) -> None:
    for cell in nb.cells:
        if cell.id.startswith("test_"):
            cell.metadata["nbgrader"].update(solution=True, locked=False)
            cell.source = "pass"


def drop_metadata(toy: Any, nb: Any) -> None:
    for cell in nb.cells:
        if cell.id != "names":
            cell.metadata = nbformat.from_dict({})


def redefine_given(toy: Any, nb: Any) -> None:
    toy.cell(nb, "given").source = "FACTOR, Refused = 1, BaseException"
    nb.cells.append(toy.own_cell("Refused = BaseException"))


def break_the_builtins(toy: Any, nb: Any) -> None:
    trick = (
        "import builtins\n"
        "builtins.all = lambda _: True\n"
        "def all(_): return True\n"
        "def int(_): return 8\n"
    )
    cell = toy.cell(nb, "double")
    cell.source = trick + cell.source


def equal_to_everything(toy: Any, nb: Any) -> None:
    toy.cell(nb, "double").source = (
        "class Any(int):\n"
        "    __eq__ = __ge__ = __le__ = lambda self, other: True\n"
        "    __hash__ = int.__hash__\n"
        "def double(number): return Any(7)"
    )


TAMPERING = [
    edit_tests,
    delete_tests,
    rename_tests,
    copy_tests,
    raise_points,
    turn_tests_into_answers,
    drop_metadata,
    redefine_given,
    break_the_builtins,
    equal_to_everything,
]


@pytest.mark.parametrize("tamper", TAMPERING)
def test_tampering_gives_no_points_and_takes_none(
    course: Any,
    checked: Callable[[Any], Report],
    tamper: Callable[[Any, Any], None],
) -> None:
    nb = course.solved(double=WRONG)
    tamper(course, nb)
    report = checked(nb)
    assert points(report) == {
        "test_double": 0,
        "test_refused": 0,
        "test_names": 3,
    }


def test_an_answer_s_renamed_or_copied_cell_still_runs(
    course: Any, checked: Callable[[Any], Report]
) -> None:
    nb = course.solved()
    course.cell(nb, "double").metadata["nbgrader"]["grade_id"] = "mine"
    names = course.cell(nb, "names")
    nb.cells.insert(7, course.pasted(names))
    nb.cells[7].source = "names = []"
    report = checked(nb)
    assert report.points == 6
    assert "Cell names occurs 2 times." in report.notes
    assert "Cell mine is none of this lesson's." in report.notes


HOSTILE = {
    "floods": ("while True: print('x' * 999)", "printed more than 200,000"),
    "exits": ("import os\nos._exit(0)", "the process ended while it ran"),
    "leaves": ("raise SystemExit(0)", "SystemExit: 0"),
}


@pytest.mark.parametrize(
    ("code", "said"), HOSTILE.values(), ids=HOSTILE.keys()
)
def test_hostile_code_is_graded_and_not_obeyed(
    course: Any, checked: Callable[[Any], Report], code: str, said: str
) -> None:
    inside = "\n".join(f"    {line}" for line in code.split("\n"))
    nb = course.solved(double=f"def double(number):\n{inside}")
    nb.cells.insert(3, course.own_cell(code))
    report = checked(nb)
    assert points(report) == {
        "test_double": 0,
        "test_refused": 0,
        "test_names": 3,
    }
    assert said in report.results[0].symptom
    (note,) = report.notes
    assert said in note


def test_an_endless_loop_costs_its_own_points_only(
    course: Any, checked_impatiently: Callable[[Any], Report]
) -> None:
    nb = course.solved(double="def double(n):\n    while n: pass")
    report = checked_impatiently(nb)
    assert points(report)["test_double"] == 0
    assert points(report)["test_names"] == 3
    assert report.results[0].symptom == "it did not end within 1 s"


@pytest.fixture
def graded(course: Any, tmp_path: Path) -> tuple[Path, list[Report]]:
    """A class: right, half right, wrong, and what cannot be graded."""
    folder = tmp_path / "submissions"
    other = course.solved()
    for cell in other.cells:
        cell.metadata.pop("nbgrader", None)
    course.hand_in(folder / "ann.ipynb", course.solved())
    course.hand_in(folder / "ben" / "x.ipynb", course.solved(double=HALF))
    course.hand_in(
        folder / "cid.ipynb", course.solved(double=WRONG, names="names = 1")
    )
    course.hand_in(folder / "dot.ipynb", other)
    (folder / "eve.ipynb").write_text("{", encoding="utf-8")
    (folder / "fay.pdf").write_bytes(b"%PDF")
    (folder / "gus").mkdir()
    (folder / "=SUM(A1)`x`.ipynb").write_text("[]", encoding="utf-8")
    (folder / ".DS_Store").write_bytes(b"\0")
    (folder / "__MACOSX").mkdir()
    out = folder / "grades"
    seen: list[Report] = []
    reports = grade(
        7, folder, out, course.root, limits=LIMITS, on_report=seen.append
    )
    assert reports == seen
    return out, reports


def test_a_class_is_graded_to_csv_json_and_feedback(
    graded: tuple[Path, list[Report]],
) -> None:
    out, reports = graded
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = {row["student"]: row for row in csv.DictReader(stream)}
    got = {name: row["points"] for name, row in rows.items()}
    assert got == {
        "'=SUM(A1)`x`": "0",
        "ann": "6",
        "ben": "5",
        "cid": "0",
        "dot": "0",
        "eve": "0",
        "fay": "0",
        "gus": "0",
    }
    parts = [rows["ben"][n] for n in ("test_double", "test_refused")]
    assert parts == ["2", "0"]
    assert {row["max_points"] for row in rows.values()} == {"6"}
    assert "its cells have lost their ids" in rows["dot"]["reason"]
    assert "does not hold JSON" in rows["eve"]["reason"]
    assert "fay.pdf is not a notebook" in rows["fay"]["reason"]
    assert "no notebook in the folder gus" in rows["gus"]["reason"]
    assert rows["ann"]["reason"] == ""

    document = json.loads((out / "grades.json").read_text(encoding="utf-8"))
    assert (document["schema"], document["lesson"]) == (1, "07")
    assert [r["student"] for r in document["reports"]] == [
        report.student for report in reports
    ]
    ben = next(r for r in document["reports"] if r["student"] == "ben")
    assert ben == {
        "student": "ben",
        "points": 5,
        "max_points": 6,
        "manual_points": 0,
        "reason": "",
        "notes": [],
        "results": [
            {
                "grade_id": "test_double",
                "exercise": "Exercise 1: double",
                "status": "passed",
                "points": 2,
                "max_points": 2,
                "symptom": "",
            },
            {
                "grade_id": "test_refused",
                "exercise": "Exercise 1: double",
                "status": "failed",
                "points": 0,
                "max_points": 1,
                "symptom": "a negative number was taken",
            },
            {
                "grade_id": "test_names",
                "exercise": "Exercise 2: names",
                "status": "passed",
                "points": 3,
                "max_points": 3,
                "symptom": "",
            },
        ],
    }

    feedback = {p.stem: p for p in (out / "feedback").iterdir()}
    assert sorted(feedback) == sorted(report.student for report in reports)
    text = feedback["ben"].read_text(encoding="utf-8")
    assert "Lesson 07: 5 of 6 points." in text
    assert "0/1 points, test_refused: failed" in text
    assert "`a negative number was taken`" in text
    assert "SECRET" not in text


def test_grading_again_replaces_the_grades(
    course: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "submissions"
    out = folder / "grades"
    course.hand_in(folder / "ann.ipynb", course.solved(double=WRONG))
    first = grade(7, folder, out, course.root, limits=LIMITS)
    course.hand_in(folder / "ann.ipynb", course.solved())
    second = grade(7, folder, out, course.root, limits=LIMITS)
    assert [r.points for r in first + second] == [3, 6]
    text = (out / "grades.csv").read_text(encoding="utf-8-sig")
    assert text.splitlines()[1].startswith("ann,6,6,0,2,1,3")


def three(course: Any, folder: Path) -> None:
    """Submissions of ann, ben and cid, all of them right."""
    for name in ("ann", "ben", "cid"):
        course.hand_in(folder / f"{name}.ipynb", course.solved())


def failing_for(student: str, error: BaseException) -> Callable[..., Report]:
    """`judge`, but with this error for one student."""

    def stand_in(*arguments: Any) -> Report:
        if arguments[2] == student:
            raise error
        return judge(*arguments)

    return stand_in


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LabError("It did not start; look."), "It did not start; look."),
        (
            OSError("no more processes"),
            "ben.ipynb could not be graded (OSError: no more processes); "
            "grade it again.",
        ),
        (
            RuntimeError("unforeseen"),
            "ben.ipynb could not be graded (RuntimeError: unforeseen); "
            "grade it again.",
        ),
    ],
)
def test_one_that_cannot_be_run_does_not_end_the_grading(
    error: Exception,
    reason: str,
    course: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three(course, tmp_path / "in")
    monkeypatch.setattr(grading, "judge", failing_for("ben", error))
    out = tmp_path / "out"
    reports = grade(7, tmp_path / "in", out, course.root, limits=LIMITS)
    assert [(r.student, r.points, r.reason) for r in reports] == [
        ("ann", 6, ""),
        ("ben", 0, reason),
        ("cid", 6, ""),
    ]
    assert table(out) == {"ann": "6", "ben": "0", "cid": "6"}


def table(out: Path) -> dict[str, str]:
    """Points of each student in the table."""
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as stream:
        return {
            row["student"]: row["points"] for row in csv.DictReader(stream)
        }


def test_an_interrupted_run_writes_what_it_graded(
    course: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(course, tmp_path / "in")
    out = tmp_path / "out"
    monkeypatch.setattr(
        grading, "judge", failing_for("cid", KeyboardInterrupt())
    )
    with pytest.raises(KeyboardInterrupt):
        grade(7, tmp_path / "in", out, course.root, limits=LIMITS)
    assert table(out) == {"ann": "6", "ben": "6"}
    names = sorted(path.name for path in (out / "feedback").iterdir())
    assert names == ["ann.md", "ben.md"]
    document = json.loads((out / "grades.json").read_text(encoding="utf-8"))
    assert [r["student"] for r in document["reports"]] == ["ann", "ben"]


def test_a_run_interrupted_at_once_keeps_the_earlier_grades(
    course: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.hand_in(tmp_path / "in" / "ann.ipynb", course.solved())
    out = tmp_path / "out"
    grade(7, tmp_path / "in", out, course.root, limits=LIMITS)
    monkeypatch.setattr(
        grading, "judge", failing_for("ann", KeyboardInterrupt())
    )
    with pytest.raises(KeyboardInterrupt):
        grade(7, tmp_path / "in", out, course.root, limits=LIMITS)
    assert table(out) == {"ann": "6"}


def test_students_are_named_by_file_or_folder(tmp_path: Path) -> None:
    for name in (
        "ann.ipynb",
        "ann.txt",
        "ben/07_toy_exercises.ipynb",
        "ben/scratch.ipynb",
        "ben/.ipynb_checkpoints/07_toy_exercises-checkpoint.ipynb",
        "cid/deep/one.ipynb",
        "cid/deep/two.py",
        "dot/a.ipynb",
        "dot/b.ipynb",
        "eve/lesson06/06_other.ipynb",
        "eve/lesson07/07_toy.ipynb",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = submissions(tmp_path, ["07_toy_exercises.ipynb", "07_toy.ipynb"])
    assert [(n, p.relative_to(tmp_path).as_posix()) for n, p in found] == [
        ("ann", "ann.ipynb"),
        ("ann.txt", "ann.txt"),
        ("ben", "ben/07_toy_exercises.ipynb"),
        ("cid", "cid/deep/one.ipynb"),
        ("dot/a", "dot/a.ipynb"),
        ("dot/b", "dot/b.ipynb"),
        ("eve", "eve/lesson07/07_toy.ipynb"),
    ]


def test_nothing_to_grade_is_one_sentence(course: Any, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="There is no folder"):
        grade(7, tmp_path / "none", tmp_path / "out", course.root)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match="nothing to grade"):
        grade(7, tmp_path / "empty", tmp_path / "out", course.root)
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(
    course: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "submissions"
    course.hand_in(folder / "ann.ipynb", course.solved())
    (tmp_path / "file").write_text("taken", encoding="utf-8")
    seen: list[Report] = []
    with pytest.raises(LabError, match="cannot be written to"):
        grade(7, folder, tmp_path / "file", course.root, on_report=seen.append)
    assert seen == []


def test_text_that_utf_8_cannot_hold_is_graded(
    course: Any, tmp_path: Path
) -> None:
    answer = 'raise ValueError("\\ud83d")'
    nb = course.solved(
        names=answer, double=f"def double(number):\n    {answer}"
    )
    course.hand_in(tmp_path / "in" / "ann.ipynb", nb)
    out = tmp_path / "out"
    (report,) = grade(7, tmp_path / "in", out, course.root, limits=LIMITS)
    assert report.results[0].symptom.startswith("ValueError: \\ud83d (line 2")
    assert report.notes[0].startswith("Cell names: ValueError: \\ud83d (line")
    assert table(out) == {"ann": "0"}
    assert "ud83d" in (out / "feedback" / "ann.md").read_text("utf-8")


def test_a_name_that_utf_8_cannot_hold_is_written(tmp_path: Path) -> None:
    report = Report("07", "bj\udcf8rn", (), reason="x\udcf8.ipynb is empty.")
    write_reports([report], "07", tmp_path)
    assert table(tmp_path) == {"bj\\udcf8rn": "0"}
    (row,) = json.loads((tmp_path / "grades.json").read_text("utf-8"))[
        "reports"
    ]
    assert row["reason"] == "x\\udcf8.ipynb is empty."


def test_only_this_lesson_s_former_feedback_is_removed(tmp_path: Path) -> None:
    former = [Report("07", name, ()) for name in ("ann", "ben", "cid/a")]
    write_reports(former, "07", tmp_path)
    write_reports([Report("06", "dot", ())], "06", tmp_path)
    (tmp_path / "feedback" / "mine.md").write_text("kept", encoding="utf-8")
    write_reports([Report("07", "ann", ())], "07", tmp_path)
    left = {p.stem for p in (tmp_path / "feedback").rglob("*.md")}
    assert left == {"ann", "dot", "mine"}


def test_what_was_not_read_is_not_graded_for_its_reason_alone(
    make_toy: Callable[..., Any], tmp_path: Path
) -> None:
    toy = make_toy(with_manual=True)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "eve.ipynb").write_text("{", encoding="utf-8")
    (report,) = grade(7, folder, out, toy.root, limits=LIMITS)
    assert [(r.status, r.points) for r in report.results] == [
        ("not graded", 0),
        ("not graded", 0),
        ("not graded", 0),
        ("manual", None),
    ]
    assert report.max_points == 6
    for text in (report.text(), report.markdown()):
        assert "does not hold JSON" in text
        assert "test_double" not in text


def test_feedback_does_not_tell_the_instructor_s_path(
    course: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in" / "ann.ipynb"
    course.hand_in(path, course.solved())
    error = PermissionError(13, "Permission denied", str(path))
    monkeypatch.setattr(grading, "judge", failing_for("ann", error))
    (report,) = grade(7, path.parent, tmp_path / "out", course.root)
    assert "Permission denied" in report.reason
    assert str(tmp_path) not in report.reason

    with pytest.raises(LabError) as missing:
        check("07", tmp_path / "none.ipynb", course.root)
    assert str(tmp_path) not in str(missing.value)


if sys.platform != "win32":

    def test_a_named_pipe_is_refused(course: Any, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        os.mkfifo(tmp_path / "in" / "x.ipynb")
        (report,) = grade(7, tmp_path / "in", tmp_path / "out", course.root)
        assert "x.ipynb is not a regular file" in report.reason
