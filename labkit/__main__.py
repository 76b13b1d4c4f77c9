"""The command line: python -m labkit COMMAND."""

from __future__ import annotations

import sys
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit("The course is not set up here: run `make lab` first.")

from labkit.errors import LabError

app = typer.Typer(
    name="labkit",
    help="The Inference Engineering Lab from the command line.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

LessonNumber = Annotated[
    str, typer.Argument(help="Number of a lesson, such as 01.")
]


@app.command(epilog="Example: python -m labkit fetch")
def fetch(
    name: Annotated[
        str | None, typer.Argument(help="Model; the course's own if left out.")
    ] = None,
) -> None:
    """Download, verify and convert a model."""
    from labkit import checkpoints

    chosen = name or checkpoints.DEFAULT
    folder = checkpoints.fetch(checkpoints.find(chosen))
    print(f"{chosen} is ready in {folder}")


@app.command(epilog="Example: python -m labkit lab --lesson 01")
def lab(
    lesson: Annotated[str, typer.Option(help="Lesson to open.")] = "01",
) -> None:
    """Fetch the model if need be and open JupyterLab on a lesson."""
    from labkit import checkpoints, course, lab, machine

    root = course.folder()
    notebook = course.notebook(lesson, root)
    checkpoints.fetch(checkpoints.find(checkpoints.DEFAULT))
    machine.speed(machine.default_threads())
    lab.start(root, notebook)


@app.command(epilog="Example: python -m labkit run 01")
def run(lesson: LessonNumber) -> None:
    """Execute a lesson without a browser and print what it recorded."""
    from labkit import course

    path = course.notebook(lesson)
    from labkit import execution

    outcome = execution.execute(path)
    print(execution.recorded(outcome.notebook))
    print(
        f"{path.name}: {outcome.seconds:.0f} s, "
        f"at most {outcome.peak_bytes / 2**20:,.0f} MiB"
    )
    if outcome.error:
        raise LabError(f"Lesson {lesson} stopped: {outcome.error}")


@app.command(epilog="Example: python -m labkit rerun 01")
def rerun(lesson: LessonNumber) -> None:
    """Execute a lesson in place, for committing its outputs."""
    from labkit import course

    path = course.notebook(lesson)
    from labkit import execution

    outcome = execution.rerun(path)
    print(f"{path.name} was executed in {outcome.seconds:.0f} s.")


@app.command(epilog="Example: python -m labkit serve --port 8001")
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8001,
    model: Annotated[
        str | None, typer.Option(help="Model; the course's own if left out.")
    ] = None,
    until_input_closes: Annotated[
        bool, typer.Option("--until-input-closes", hidden=True)
    ] = False,
) -> None:
    """Serve a model over HTTP until Ctrl-C."""
    from labkit.serving import run

    run.serve_checkpoint(model, host, port, until_input_closes)


@app.command(epilog="Example: python -m labkit doctor")
def doctor() -> None:
    """Say what is installed, what is wrong, and how to mend it.

    Paste the output into a bug report: it names no person.
    """
    from labkit.doctor import as_text, examine

    findings = examine()
    print(as_text(findings))
    if any(finding.mend for finding in findings):
        raise typer.Exit(1)


def main() -> None:
    """Run a command; an error for the person is one line, status 1."""
    try:
        app()
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped; run the same command to go on.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
