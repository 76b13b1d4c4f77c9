"""Exercises: the learner's copy, self-check, grading and the hand-out.

`source` reads a source and makes the student copy, `validation` says what a
source lacks, `families` looks at a process and all that it started,
`processes` runs cells within limits, `submission` lays a learner's cells
into the source, `reports` holds the results and writes them down, `judging`
runs and judges one submission, `handout` and `grading` are what a command
calls. Each imports only those before it. `confinement` is the script that
`processes` starts, `runner` what goes on in it. Importing this package loads
nbformat.
"""

from labkit.exercises.grading import check, grade
from labkit.exercises.handout import release, saved, write_student_copy
from labkit.exercises.processes import RunLimits, in_force
from labkit.exercises.reports import Report, Result
from labkit.exercises.source import load_source, student_copy
from labkit.exercises.validation import validate_source

__all__ = [
    "Report",
    "Result",
    "RunLimits",
    "check",
    "grade",
    "in_force",
    "load_source",
    "release",
    "saved",
    "student_copy",
    "validate_source",
    "write_student_copy",
]
