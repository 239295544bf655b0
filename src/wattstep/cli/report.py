"""`wattstep report`: one HTML file that opens offline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wattstep.cli.folders import DAILY, SWEEP, Found, find, read_sweep, trained
from wattstep.cli.options import Json, Quiet
from wattstep.cli.saying import say, say_failures
from wattstep.errors import DamagedRunError, RecordingError
from wattstep.records.failures import Failures
from wattstep.reports.values import plain

if TYPE_CHECKING:
    from wattstep.reports.pages.report import Reported, Unreadable

MOST_EXPLAINED = 8  # runs of a report whose explanations stand in it


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Runs, folders that hold runs, sweeps, daily trainings."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path(
        "report.html"
    ),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report of recorded runs that opens in a browser, offline."""
    if len(runs) == 1 and (runs[0] / SWEEP).exists():
        _report_sweep(runs[0], output, json, quiet)
        return
    empty = [path for path in runs if _holds_nothing(path)] if len(runs) > 1 else []
    found = find([path for path in runs if path not in empty] or runs)
    _report_runs(found, empty, output, json, quiet)


def _holds_nothing(path: Path) -> bool:
    """Whether a folder is there, and no run is: beside others it is listed, and they are shown."""
    known = ("run.json", SWEEP, DAILY)
    return (
        path.is_dir()
        and not any((path / name).exists() for name in known)
        and not any(path.glob("*/run.json"))
    )


def _report_runs(
    found: Found, empty: Sequence[Path], output: Path, as_json: bool, quiet: bool
) -> None:
    from wattstep.reports.pages.report import Unreadable, write_report

    reported, unreadable = _read(found.runs, quiet)
    unreadable = [
        *(
            Unreadable(path=plain(path.name), reason=plain(f"{path} is not a run, and holds none"))
            for path in empty
        ),
        *unreadable,
    ]
    daily = [_daily(path) for path in found.daily]
    if not reported and not daily:
        raise DamagedRunError("; ".join(run.reason for run in unreadable))
    for run in unreadable:
        say(f"wattstep: left out: {run.reason}")
    failures = Failures()
    _written(output, lambda: write_report(reported, output, unreadable, daily, failures))
    say_failures(failures)
    documents = [run.document for run in reported]
    problems = [{"run": run.path, "problem": run.reason} for run in unreadable]
    days = {"daily": daily} if daily else {}
    document = {"runs": documents, "damaged": problems, "failures": failures.documents(), **days}
    _tell({**document, "report": str(output)}, output, as_json)


def _report_sweep(path: Path, output: Path, as_json: bool, quiet: bool) -> None:
    """The table of what fits, and the paper's figures; single runs are reported by their folders."""
    from wattstep.fleet.folder import load_sweep
    from wattstep.reports.pages.sweep import write_sweep_report

    document = load_sweep(path, warn=lambda text: say(f"wattstep: {text}"))
    reported, _ = _read(trained(path, read_sweep(path)), quiet)
    _written(output, lambda: write_sweep_report(document, output, reported))
    _tell({**document, "report": str(output)}, output, as_json)


def _read(runs: Mapping[Path, str], quiet: bool) -> tuple[Sequence[Reported], Sequence[Unreadable]]:
    """The runs that can be shown, and the others."""
    from wattstep.reports.pages.report import Reported, read_run

    found: list[Reported] = []
    unreadable: list[Unreadable] = []
    for path, state in runs.items():
        if not quiet:
            say(f"reading {path}")
        run = read_run(path, state, explained=len(runs) <= MOST_EXPLAINED)
        if isinstance(run, Reported):
            found.append(run)
        else:
            unreadable.append(run)
    return found, unreadable


def _daily(path: Path) -> dict[str, Any]:
    """The document of a daily training.

    Raises:
        DamagedRunError: No day has begun, or its days are damaged.
    """
    from wattstep.daily.document import describe
    from wattstep.daily.folder import DailyFolder

    try:
        document = describe(DailyFolder(path))
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DamagedRunError(f"{path}: its days are damaged") from error
    if not document["batches"]:
        raise DamagedRunError(f"{path} is a daily training of which no day has begun")
    return document


def _written(output: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        raise RecordingError(f"{output} cannot be written: {error.strerror or error}") from error


def _tell(document: Mapping[str, Any], output: Path, as_json: bool) -> None:
    if as_json:
        from wattstep.reports.json_document import dump

        dump(document, sys.stdout)
    else:
        print(f"report: {output.absolute().as_uri()}")
