"""`wattstep report`: one HTML file that opens offline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wattstep.cli.options import Json, Quiet
from wattstep.cli.saying import say
from wattstep.errors import DamagedRunError, RecordingError
from wattstep.reports.values import plain

SWEEP = "sweep.json"  # what a folder of a sweep is known by


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs; or one sweep."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path(
        "report.html"
    ),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report of recorded runs that opens in a browser, offline."""
    from wattstep.reports.pages.report import Reported, Unreadable, read_run, write_report

    if len(runs) == 1 and (runs[0] / SWEEP).exists():
        _report_sweep(runs[0], output, json)
        return
    empty = [path for path in runs if _holds_nothing(path)] if len(runs) > 1 else []
    paths = expand([path for path in runs if path not in empty] or runs)
    found: list[Reported] = []
    unreadable = [
        Unreadable(path=plain(path.name), reason=plain(f"{path} is not a run, and holds none"))
        for path in empty
    ]
    for path in paths:
        if not quiet:
            say(f"reading {path}")
        run = read_run(path)
        if isinstance(run, Reported):
            found.append(run)
        else:
            unreadable.append(run)
    if not found:
        raise DamagedRunError("; ".join(run.reason for run in unreadable))
    for run in unreadable:
        say(f"wattstep: left out: {run.reason}")
    try:
        write_report(found, output, unreadable)
    except OSError as error:
        raise RecordingError(f"{output} cannot be written: {error.strerror or error}") from error
    if json:
        from wattstep.reports.json_document import dump

        documents = [run.document for run in found]
        problems = [{"run": run.path, "problem": run.reason} for run in unreadable]
        dump({"runs": documents, "damaged": problems, "report": str(output)}, sys.stdout)
    else:
        print(f"report: {output.absolute().as_uri()}")


def _holds_nothing(path: Path) -> bool:
    """Whether a folder is there, and no run is: beside others it is listed, and they are shown."""
    return path.is_dir() and not (path / "run.json").exists() and not any(path.glob("*/run.json"))


def _report_sweep(path: Path, output: Path, as_json: bool) -> None:
    """The table of what fits; the single runs of a sweep are reported by their folders."""
    from wattstep.fleet.folder import load_sweep
    from wattstep.reports.pages.sweep import write_sweep_report

    document = load_sweep(path, warn=lambda text: say(f"wattstep: {text}"))
    try:
        write_sweep_report(document, output)
    except OSError as error:
        raise RecordingError(f"{output} cannot be written: {error.strerror or error}") from error
    if as_json:
        from wattstep.reports.json_document import dump

        dump({**document, "report": str(output)}, sys.stdout)
    else:
        print(f"report: {output.absolute().as_uri()}")


def expand(paths: list[Path]) -> list[Path]:
    """Runs as they are; folders as the runs in them, the oldest first.

    Raises:
        DamagedRunError: There is no run.
    """
    found = []
    for path in paths:
        if not path.exists():
            raise DamagedRunError(f"{path}: there is no such run")
        if path.is_dir() and not (path / "run.json").exists():
            inside = sorted(p.parent for p in path.glob("*/run.json"))
            if not inside:
                raise DamagedRunError(f"{path} is not a run, and holds none")
            found.extend(inside)
        else:
            found.append(path)
    return found
