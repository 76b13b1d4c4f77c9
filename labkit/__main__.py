"""The command line: python -m labkit COMMAND."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
except ModuleNotFoundError:
    from labkit import bootstrap

    sys.exit(bootstrap.not_here(Path(__file__).parents[1], sys.argv[1:]))

from labkit import store
from labkit.errors import LabError

if TYPE_CHECKING:
    from labkit.comparison import Comparison
    from labkit.machine import Speed
    from labkit.results import Result

INTERRUPTED = 130
MINE = Path("exercises/mine")

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
Out = Annotated[Path | None, typer.Option(help="New folder for the evidence.")]
Page = Annotated[
    Path | None, typer.Option(help="Write the report as HTML here.")
]
Csv = Annotated[
    Path | None, typer.Option(help="Write the figures as CSV here.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Finish what is in the folder.")
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
    number: Annotated[
        str | None, typer.Argument(help="Lesson to open; 01 if left out.")
    ] = None,
    lesson: Annotated[
        str, typer.Option(help="The same, by name.", show_default=False)
    ] = "01",
) -> None:
    """Fetch the model if need be and open JupyterLab on a lesson."""
    from labkit import checkpoints, course, lab, machine

    root = course.folder()
    notebook = course.notebook(number or lesson, root)
    checkpoints.fetch(checkpoints.find(checkpoints.DEFAULT))
    machine.speed(machine.default_threads())
    lab.start(root, notebook)


@app.command(epilog="Example: python -m labkit run 01")
def run(lesson: LessonNumber) -> None:
    """Execute a lesson without a browser and print its numbers.

    Prints what the lesson recorded, and its comparison with baselines.
    """
    from labkit import course

    path = course.notebook(lesson)
    from labkit import comparison_table, execution

    outcome = execution.execute(path)
    print(execution.recorded(outcome.notebook))
    if outcome.error is None:
        print(f"\n{comparison_table.as_text(newest_comparison(lesson))}\n")
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


@app.command(epilog="Example: python -m labkit compare 01 --json")
def compare(
    lesson: LessonNumber,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, not a table.")
    ] = False,
    every: Annotated[
        bool,
        typer.Option("--all", help="Every machine, sorted, yours among them."),
    ] = False,
) -> None:
    """Set your newest result of a lesson beside every baseline."""
    import json

    from labkit import comparison_table

    if every:
        print(every_machine(lesson, as_json=as_json))
        return
    made = newest_comparison(lesson)
    if as_json:
        print(json.dumps(comparison_table.as_json(made), indent=2))
    else:
        print(comparison_table.as_text(made))


@app.command(epilog="Example: python -m labkit publish 01")
def publish(lesson: LessonNumber) -> None:
    """Make a baseline of this machine from your newest three results."""
    from labkit import baselines, course, publishing, results

    number = course.notebook(lesson).name[:2]
    runs = results.latest(course.results_folder(), number, publishing.RUNS)
    speed = speed_of(runs[0]) if runs else None
    path = publishing.publish(runs, baselines.data_folder(), speed=speed)
    print(f"Published as {path.relative_to(course.folder())}.")
    if path.with_name(baselines.SPEED_FILE).is_file():
        print("Commit it with speed.json beside it, which the table of all")
        print("machines needs.")


@app.command(epilog="Example: python -m labkit badges OWNER/NAME")
def badges(
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME")],
    branch: Annotated[
        str, typer.Option(help="The branch that is opened.")
    ] = "main",
) -> None:
    """Write the course's address on GitHub, with badges, into its files."""
    from labkit import badges, course

    root = course.folder()
    changed = badges.write(root, repository, branch)
    for path in changed:
        print(f"Changed {path.relative_to(root)}.")
    if not changed:
        print("Nothing to change: every file names it already.")


@app.command(epilog="Example: python -m labkit exercise 01")
def exercise(
    lesson: LessonNumber,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where to write it; exercises/mine if left out."),
    ] = None,
) -> None:
    """Write your copy of a lesson's exercises."""
    from labkit import course, exercises

    root = course.folder()
    place = folder or root / MINE
    path = exercises.write_student_copy(lesson, place, root)
    shown = course.without_home(str(path))
    print(f"Your copy is {shown}.")
    print("Open it in JupyterLab, write your answers and save it. Then:")
    where = f' --notebook "{path}"' if folder else ""
    print(f"    python -m labkit check {lesson}{where}")


@app.command(epilog="Example: python -m labkit check 01")
def check(
    lesson: LessonNumber,
    notebook: Annotated[
        Path | None, typer.Option(help="Your notebook, if elsewhere.")
    ] = None,
    cell_seconds: Annotated[
        float, typer.Option(min=1, help="Longest time for a cell, in s.")
    ] = 20,
) -> None:
    """Say which of your answers pass and which do not yet."""
    from labkit import course, exercises
    from labkit.exercises.handout import copy_name

    root = course.folder()
    path = notebook or root / MINE / copy_name(lesson, root)
    path = path.expanduser()
    if notebook and not path.exists():
        raise LabError(f"There is no file {notebook}: check the name.")
    if not path.exists():
        raise LabError(
            f"There is no {path.name} yet: write your copy with "
            f"`python -m labkit exercise {lesson}` first."
        )
    if path.is_file():
        print(exercises.saved(path))
    report = exercises.check(
        lesson,
        path,
        root,
        exercises.RunLimits(cell_s=cell_seconds, overruns=1),
        on_stop=lambda said: print(f"{said}; going on ..."),
    )
    print(report.text())
    if not report.passed:
        raise typer.Exit(1)


@app.command(epilog="Example: python -m labkit grade 01 handed-in --out marks")
def grade(
    lesson: LessonNumber,
    folder: Annotated[Path, typer.Argument(help="Submissions.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where CSV, JSON and feedback go.",
            show_default="graded and the number, as in graded-01",
        ),
    ] = None,
    cell_seconds: Annotated[
        float, typer.Option(min=1, help="Longest time for a cell, in s.")
    ] = 60,
) -> None:
    """Grade every submission in a folder."""
    from labkit import course, exercises

    limits = exercises.RunLimits(cell_s=cell_seconds)
    number = course.notebook(lesson).name[:2]
    out = out or Path(f"graded-{number}")
    reports = exercises.grade(
        lesson,
        folder,
        out,
        course.folder(),
        limits=limits,
        on_start=lambda: print(exercises.in_force(limits)),
        on_report=lambda r: print(f"{r.student}: {r.summary()}"),
    )
    print(f"{len(reports)} submissions graded, see {out}")


@app.command(epilog="Example: python -m labkit release 01 hand-out")
def release(
    lesson: LessonNumber,
    out: Annotated[Path, typer.Argument(help="A new folder.")],
) -> None:
    """Make the hand-out of a lesson's exercises."""
    from labkit import course, exercises

    print(exercises.release(lesson, out, course.folder()))


@app.command(epilog="Example: python -m labkit serve --port 8001")
def serve(  # noqa: PLR0913 - each is one option
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8001,
    model: Annotated[
        str | None, typer.Option(help="Model; the course's own if left out.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads; up to two if left out.")
    ] = None,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Fused weights: the same tokens sooner."),
    ] = False,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="<host>",
            help="A further name of this server, such as a proxy's.",
        ),
    ] = None,
    until_input_closes: Annotated[
        bool, typer.Option("--until-input-closes", hidden=True)
    ] = False,
) -> None:
    """Serve a model over HTTP until Ctrl-C."""
    from labkit.serving import run

    run.serve_checkpoint(
        model,
        run.Place(host, port, names or ()),
        run.setting(threads, fused=fast),
        until_input_closes,
    )


@app.command(
    epilog="Example: python -m labkit loadtest http://127.0.0.1:8001"
    " --clients 2 --out evidence"
)
def loadtest(  # noqa: PLR0913 - each is one option
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="Address of a server.")],
    *,
    out: Out = None,
    clients: Annotated[
        int | None, typer.Option(help="Closed loop: this many clients.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Open loop: requests per second.")
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            help="constant, poisson, or a file of seconds.",
            show_default="constant",
        ),
    ] = None,
    most_in_flight: Annotated[
        int | None, typer.Option(help="Open loop: send no more at once.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(help="To measure.", show_default="20")
    ] = None,
    warmups: Annotated[int, typer.Option(help="Not to count.")] = 1,
    input_tokens: Annotated[int, typer.Option(help="Of each prompt.")] = 64,
    new_tokens: Annotated[int, typer.Option(help="Of each answer.")] = 24,
    prompts: Annotated[
        str, typer.Option(help="passage, or random token ids.")
    ] = "passage",
    vocabulary: Annotated[
        int | None, typer.Option(help="Token ids, if the server hides it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of prompts and arrivals.")] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds a request.")] = 300.0,
    objective: Annotated[
        list[str] | None, typer.Option(help="Such as ttft_ms=500.")
    ] = None,
    openai: Annotated[
        str | None, typer.Option(help="Model, for OpenAI's routes.")
    ] = None,
    keep_alive: Annotated[
        bool, typer.Option("--keep-alive", help="Use connections again.")
    ] = False,
    pid: Annotated[
        int | None, typer.Option(help="Of the server, to watch its memory.")
    ] = None,
    page: Page = None,
    csv: Csv = None,
    resume: Resume = False,
) -> None:
    """Measure a server under load; keep the evidence.

    Resuming takes the plan from the folder. Status 3: not finished.
    """
    from labkit.loadtest import command

    folder = evidence_folder(out, resume)
    server = command.Server(url, openai, pid, keep_alive)
    if resume:
        command.require_same_options(folder, options_given(context))
    else:
        wanted = command.Wanted(
            clients,
            rate,
            arrivals,
            most_in_flight,
            requests,
            warmups,
            input_tokens,
            new_tokens,
            prompts,
            vocabulary,
            seed,
            timeout,
            command.objectives(objective or ()),
        )
        command.start(folder, server, wanted)
    report_load(folder, command.go_on(folder, server), page, csv)


@app.command(epilog="Example: python -m labkit matrix --out evidence")
def matrix(  # noqa: PLR0913 - each is one option
    *,
    out: Out = None,
    subset: Annotated[
        bool, typer.Option("--subset", help="64 tokens in alone.")
    ] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="Serve fused weights.")
    ] = False,
    page: Page = None,
    csv: Csv = None,
    resume: Resume = False,
) -> None:
    """Measure the published matrix of threads, clients and lengths.

    48 requests of 24 tokens, a few minutes. Status 3: not finished.
    """
    from labkit.loadtest import matrix

    folder = evidence_folder(out, resume)
    whole = matrix.run(folder, subset=subset, fast=fast, resume=resume)
    report_load(folder, whole, page, csv)


@app.command(epilog="Example: python -m labkit verify evidence")
def verify(
    folder: Annotated[Path, typer.Argument(help="With evidence.")],
) -> None:
    """Check the evidence of a load test, and compute its report again.

    Status: 0 complete and right, 1 something differs, 2 no evidence,
    3 right but partial.
    """
    from labkit.loadtest import verify

    if not folder.is_dir():
        print(f"There is no folder {folder}: name one that a load test wrote.")
        raise typer.Exit(verify.UNREADABLE)
    raise typer.Exit(verify.main([str(folder)]))


def options_given(context: typer.Context) -> dict[str, Any]:
    """The options that a person wrote, without those left out."""
    return {
        name: value
        for name, value in context.params.items()
        if getattr(context.get_parameter_source(name), "name", "")
        == "COMMANDLINE"
    }


def evidence_folder(out: Path | None, resume: bool) -> Path:
    """Where evidence goes: among the results, if nothing else is said."""
    from datetime import UTC, datetime

    from labkit import course

    if out is not None:
        return out
    if resume:
        raise LabError("Name the folder that is to be finished: add --out.")
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return course.results_folder() / "loadtest" / now


def report_load(
    folder: Path, whole: bool, page: Path | None, csv: Path | None
) -> None:
    """Print what a load test found; status 3 when it was not finished."""
    from labkit.loadtest import command, evidence, report, tables, verify

    found = evidence.load(folder)
    made = report.figures(found)
    print(tables.as_text(found, made))
    print(f"\nThe evidence is in {folder}: `verify` checks it.")
    if page is not None:
        command.write_page(found, page)
    if csv is not None:
        command.write_csv(found, csv)
    command.require_success(made)
    if not whole:
        print(f"Stopped; add --resume --out {folder} to finish it.")
        raise typer.Exit(verify.PARTIAL)


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


def newest_comparison(lesson: str) -> Comparison:
    """The newest result of a lesson beside every baseline."""
    from labkit import baselines, comparison, course, results

    number = course.notebook(lesson).name[:2]
    (result,) = results.latest(course.results_folder(), number)
    beside = baselines.beside(result, baselines.data_folder())
    return comparison.compare(result, result.predictions, beside)


def every_machine(lesson: str, *, as_json: bool) -> str:
    """All machines' figures for a lesson, as a table or as JSON."""
    import json
    from contextlib import suppress
    from dataclasses import asdict

    from labkit import baselines, course, machines, results

    number = course.notebook(lesson).name[:2]
    mine = None
    with suppress(LabError):  # a learner may look before the first run
        (mine,) = results.latest(course.results_folder(), number)
    found = machines.of_lesson(
        number,
        baselines.data_folder(),
        mine,
        speed_of(mine) if mine else None,
    )
    if as_json:
        return json.dumps(asdict(found))
    told = machines.as_text(found)
    if mine is None:
        told += f"\n\nYou have no result yet: python -m labkit run {number}"
    return told


def speed_of(result: Result) -> Speed | None:
    """This machine's speed, if the result was measured on it."""
    from labkit import baselines, machine

    here = machine.slug(machine.identify(), machine.software())
    threads = result.protocol.threads or machine.default_threads()
    return machine.speed(threads) if baselines.slug(result) == here else None


def main() -> None:
    """Run a command; an error for the person is one line, status 1."""
    try:
        store.settle(os.environ)
        app()
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except SystemExit as ended:
        # The command line library turns Ctrl-C into this status.
        if ended.code == INTERRUPTED:
            print("Stopped; run the same command to go on.", file=sys.stderr)
        raise


if __name__ == "__main__":
    main()
