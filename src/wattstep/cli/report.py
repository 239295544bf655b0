"""`wattstep report`: one HTML file that opens offline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.folders import DAILY, SWEEP, FolderContents, asked, find, read_sweep, trained
from wattstep.cli.lean import lean
from wattstep.cli.options import OUTPUT, Json, Quiet
from wattstep.cli.saying import say, say_failures
from wattstep.errors import DamagedRunError, InvalidValueError, RecordingError, error_of
from wattstep.report.values import plain
from wattstep.schema.failures import Failures

if TYPE_CHECKING:
    from wattstep.report.html.report import Reported, Unreadable
    from wattstep.schema.daily_report import DailyReport

MOST_EXPLAINED = 8  # runs of a report whose explanations stand in it


def report(
    runs: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.runs,
            metavar="[RUN...]",
            help="Runs, folders that hold runs, sweeps, daily trainings. [default: the newest run in runs]",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(*OUTPUT, help="The HTML file.")] = Path("report.html"),
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Figures of the TX2 paper and of Cai et al. from these runs, also where some cannot be drawn.",
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report of recorded runs that opens in a browser, offline."""
    runs = runs or asked(None, "report")
    if len(runs) == 1 and (runs[0] / SWEEP).exists():
        _report_sweep(runs[0], output, paper, json, quiet)
        return
    empty = [path for path in runs if _holds_nothing(path)] if len(runs) > 1 else []
    contents = find([path for path in runs if path not in empty] or runs)
    _report_runs(contents, empty, output, paper, json, quiet)


def _holds_nothing(path: Path) -> bool:
    """True if a folder is there and holds no run: beside others it is listed, and they are shown."""
    known = ("run.json", SWEEP, DAILY)
    return (
        path.is_dir()
        and not any((path / name).exists() for name in known)
        and not any(path.glob("*/run.json"))
    )


def _report_runs(
    contents: FolderContents,
    empty: Sequence[Path],
    output: Path,
    paper: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from wattstep.cli.progress import stages_of
    from wattstep.report.html.report import Unreadable, write_report

    explained = len(contents.runs) <= MOST_EXPLAINED
    reported, unreadable = _read(contents.runs, quiet, explained=explained)
    unreadable = [
        *(
            Unreadable(path=plain(path.name), reason=plain(f"{path} is not a run, and holds none"))
            for path in empty
        ),
        *unreadable,
    ]
    daily = [_daily(path) for path in contents.daily]
    if not reported and not daily:
        line = "; ".join(run.reason for run in unreadable)
        only = {"id": unreadable[0].id} if len(unreadable) == 1 else {}
        raise error_of(only, line, otherwise=DamagedRunError)
    failures = Failures()
    with stages_of("writing", quiet=quiet) as tell:
        tell(str(output))
        _written(output, lambda: write_report(reported, output, unreadable, daily, failures, paper))
    documents: dict[str, Any] = {}
    if as_json:  # of a run with many operations it takes as long as a third of the page
        days = {"daily": [one.to_dict() for one in daily]} if daily else {}
        documents = {"runs": [run.report.to_dict() for run in reported], **days}
    _tell(documents, unreadable, failures, output, as_json)


def _report_sweep(path: Path, output: Path, paper: bool, as_json: bool, quiet: bool) -> None:
    """The table of what fits; single runs are reported by their folders."""
    from wattstep.report.html.sweep import write_sweep_report
    from wattstep.sweep.folder import load_sweep

    sweep = load_sweep(path, warn=lambda text: say(f"wattstep: {text}"))
    reported, unreadable = _read(trained(path, read_sweep(path)), quiet, explained=False)
    failures = Failures()
    _written(
        output, lambda: write_sweep_report(sweep, output, reported, unreadable, failures, paper)
    )
    _tell(sweep.to_dict(), unreadable, failures, output, as_json)


def _read(
    runs: Mapping[Path, str], quiet: bool, *, explained: bool
) -> tuple[Sequence[Reported], Sequence[Unreadable]]:
    """The runs that can be shown, and the others."""
    from wattstep.cli.progress import list_progress
    from wattstep.report.html.report import Reported, read_run

    reported: list[Reported] = []
    unreadable: list[Unreadable] = []
    with list_progress("reading", len(runs), quiet=quiet) as tell:
        for path, state in runs.items():
            tell(str(path))
            with lean():
                run = read_run(path, state, explained=explained)
            if isinstance(run, Reported):
                reported.append(run)
            else:
                unreadable.append(run)
    return reported, unreadable


def _daily(path: Path) -> DailyReport:
    """Result of a daily training.

    Raises:
        DamagedRunError: No day has begun, or its days are damaged.
    """
    from wattstep.train.daily.folder import DailyFolder
    from wattstep.train.daily.result import daily_report

    try:
        daily = daily_report(DailyFolder(path))
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DamagedRunError(f"{path}: its days are damaged", id="damaged-days") from error
    if not daily.batches:
        raise DamagedRunError(
            f"{path} is a daily training of which no day has begun", id="no-day-yet"
        )
    return daily


def _written(output: Path, write: Callable[[], None]) -> None:
    try:
        with lean():
            write()
    except OSError as error:
        if output.is_dir():
            raise InvalidValueError(
                f"--output {output} is a folder: give the page a name, e.g. {output / 'report.html'}",
                id="folder-as-file",
            ) from error
        raise RecordingError(f"{output} cannot be written: {error.strerror or error}") from error


def _tell(
    document: Mapping[str, Any],
    unreadable: Sequence[Unreadable],
    failures: Failures,
    output: Path,
    as_json: bool,
) -> None:
    """Prints what was left out, each a line; then where the report is, or all of it as JSON."""
    for run in unreadable:
        say(f"wattstep: left out: {run.reason}")
    say_failures(failures)
    if as_json:
        from wattstep.report.json_document import dump

        damaged = [{"run": run.path, "problem": run.reason} for run in unreadable]
        parts = {"damaged": damaged, "failures": failures.documents()}
        dump({**document, **parts, "report": str(output)}, sys.stdout)
    else:
        print(f"report: {output.absolute().as_uri()}")
