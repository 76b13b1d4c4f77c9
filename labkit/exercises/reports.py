"""What a check or a grading found, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from labkit.store import write_text

Status = Literal["passed", "failed", "not done", "manual", "not graded"]

SCHEMA = 1


@dataclass(frozen=True)
class Result:
    """One graded cell. `points` is None until a person has graded it."""

    grade_id: str
    exercise: str
    status: Status
    points: float | None
    max_points: float
    symptom: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "symptom", _writable(self.symptom))


@dataclass(frozen=True)
class Report:
    """One submission. `reason` says why nothing of it could be graded."""

    lesson: str
    student: str
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        notes = tuple(_writable(note) for note in self.notes)
        object.__setattr__(self, "student", _writable(self.student))
        object.__setattr__(self, "notes", notes)
        object.__setattr__(self, "reason", _writable(self.reason))

    @property
    def points(self) -> float:
        """Points earned in the tests."""
        return sum(r.points for r in self.results if r.points is not None)

    @property
    def max_points(self) -> float:
        """Points that the tests can give."""
        return sum(r.max_points for r in self.results if r.status != "manual")

    @property
    def manual_points(self) -> float:
        """Points that a person still has to give."""
        return sum(r.max_points for r in self.results if r.status == "manual")

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return not self.reason and self.points == self.max_points

    def text(self) -> str:
        """The report for a terminal, a line for each test.

        Notes come first: a cell that did not run is why tests fail.
        """
        lines = [self.summary(), *([self.reason] if self.reason else [])]
        if self.notes:
            lines.extend(["", *self.notes])
        for exercise, results in self._by_exercise():
            lines.extend(["", exercise])
            lines.extend(f"  {_line(result)}" for result in results)
        return "\n".join(lines)

    def markdown(self) -> str:
        """The feedback file."""
        lines = [_heading(self.lesson) + _code(self.student)]
        lines.extend(["", self.summary()])
        if self.reason:
            lines.extend(["", _code(self.reason)])
        for exercise, results in self._by_exercise():
            lines.extend(["", f"## {exercise}", ""])
            lines.extend(f"- {_item(result)}" for result in results)
        if self.notes:
            lines.extend(["", "## Notes", ""])
            lines.extend(f"- {_code(note)}" for note in self.notes)
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        """The points in one sentence."""
        text = (
            f"Lesson {self.lesson}: {self.points:g} of "
            f"{self.max_points:g} points"
        )
        if self.manual_points:
            text += f", and {self.manual_points:g} for a person to give"
        if self.notes:
            text += f"; {len(self.notes)} remark{'s'[len(self.notes) == 1 :]}"
        return text + "."

    def document(self) -> dict[str, object]:
        """The report as plain data for JSON."""
        return {
            "student": self.student,
            "points": self.points,
            "max_points": self.max_points,
            "manual_points": self.manual_points,
            "reason": self.reason,
            "notes": list(self.notes),
            "results": [asdict(result) for result in self.results],
        }

    def _by_exercise(self) -> list[tuple[str, list[Result]]]:
        if self.reason:  # it says all; no test was run
            return []
        return [
            (exercise, list(results))
            for exercise, results in groupby(
                self.results, key=lambda result: result.exercise
            )
        ]


def write_reports(reports: Sequence[Report], lesson: str, out: Path) -> None:
    """Write `grades.csv`, `grades.json` and a feedback file each.

    The feedback of student NAME is `feedback/NAME.md`; what an earlier run
    for this lesson left there is removed. The table begins with a byte order
    mark, without which spreadsheets misread names.
    """
    feedback = {
        out / "feedback" / f"{report.student}.md": report.markdown()
        for report in reports
    }
    _remove_former(out / "feedback", lesson)
    for path, markdown in feedback.items():
        write_text(path, markdown)
    document = {
        "schema": SCHEMA,
        "lesson": lesson,
        "reports": [report.document() for report in reports],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    write_text(out / "grades.json", text + "\n")
    write_text(out / "grades.csv", "\ufeff" + _csv(reports))


def _remove_former(folder: Path, lesson: str) -> None:
    """Remove the lesson's feedback files, and no other file."""
    heading = _heading(lesson).encode()
    for path in folder.rglob("*.md"):
        if path.is_file() and path.read_bytes().startswith(heading):
            path.unlink()


def _heading(lesson: str) -> str:
    return f"# Lesson {lesson}, exercises: "


def _writable(text: str) -> str:
    """Text from a learner with what UTF-8 cannot hold (surrogates) spelled."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _csv(reports: Sequence[Report]) -> str:
    """A line for each student, a column for each graded cell."""
    names = list(
        dict.fromkeys(r.grade_id for rep in reports for r in rep.results)
    )
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        [
            *("student", "points", "max_points", "manual_points"),
            *names,
            *("remarks", "reason"),
        ]
    )
    for report in reports:
        points = {r.grade_id: r.points for r in report.results}
        writer.writerow(
            [
                _plain(report.student),
                f"{report.points:g}",
                f"{report.max_points:g}",
                f"{report.manual_points:g}",
                *(_number(points.get(name)) for name in names),
                f"{len(report.notes)}",
                _plain(report.reason),
            ]
        )
    return stream.getvalue()


def _number(points: float | None) -> str:
    return "" if points is None else f"{points:g}"


def _plain(text: str) -> str:
    """Text that a spreadsheet will not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _line(result: Result) -> str:
    text = f"{result.status:<8}  {_share(result):>5}  {result.grade_id}"
    return f"{text}: {result.symptom}" if result.symptom else text


def _item(result: Result) -> str:
    text = f"{_share(result)} points, {result.grade_id}: {result.status}"
    return f"{text}. {_code(result.symptom)}" if result.symptom else text


def _share(result: Result) -> str:
    return f"{_number(result.points) or '-'}/{result.max_points:g}"


def _code(text: str) -> str:
    """Text that came from a learner, shown as it is and on one line."""
    flat = " ".join(text.split()).replace("`", "'")
    return f"`{flat}`" if flat else ""
