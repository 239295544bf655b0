"""`wattstep runs`: the recorded runs as a list, and what one of them holds."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import typer
from rich.table import Table
from rich.text import Text

from wattstep.cli import completing
from wattstep.cli.options import Json
from wattstep.cli.saying import say, say_failures
from wattstep.report.values import plain
from wattstep.schema.failures import Failures

if TYPE_CHECKING:
    from wattstep.schema.figures import Figures
    from wattstep.store.listing import ListedRun

FINISHED: Final = ("closed", "recovered")
HEADLINES: Final = ("step_time", "energy_per_step")  # of a list
MOST_ARGUMENTS: Final = 40  # characters of a script's arguments


def runs(
    action: Annotated[
        str,
        typer.Argument(
            autocompletion=lambda: ["list", "show"],
            metavar="[list|show]",
            help="list; or show, as wattstep show does (--json: the run's files and its run.json).",
        ),
    ] = "list",
    path: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.runs,
            metavar="[PATH]",
            help="Folder of runs to list, or the run to show. [default: runs, or its newest run]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List recorded runs, or show one of them."""
    from wattstep.cli.folders import asked
    from wattstep.errors import InvalidValueError

    if action == "list" and path is not None and not path.is_dir():
        what = "is a file" if path.exists() else "is not there"
        raise InvalidValueError(
            f"{path} {what}: wattstep runs list FOLDER takes a folder of runs", id="not-a-folder"
        )
    if action == "list":
        _list(path or Path("runs"), json)
    elif action == "show":
        _show(path or asked(None, "runs show")[0], json)
    else:
        raise InvalidValueError(
            f"{action} is neither list nor show: wattstep runs list FOLDER, or wattstep runs show RUN",
            id="needs-a-run",
        )


def _list(folder: Path, as_json: bool) -> None:
    from wattstep.cli.progress import list_progress
    from wattstep.schema.figures import Figures
    from wattstep.store.listing import listed

    rows = [listed(path.parent)[0] for path in sorted(folder.glob("*/run.json"))]
    figures: dict[str, Figures] = {}
    failures = Failures()
    with list_progress("reading", len(rows), quiet=as_json) as tell:
        for row in rows:
            tell(row.run)
            if row.failure:
                failures.add(row.run, row.failure)
            elif row.problem is None and row.state in FINISHED:  # others are left as they are
                ask = partial(_headlines, Path(row.run))
                figures[row.run] = failures.guard(row.run, ask, Figures())
    say_failures(failures)
    if as_json:
        from wattstep.report.json_document import dump
        from wattstep.schema.run_report import json_of

        documents = [
            {
                **row.to_dict(),
                **({"figures": json_of(figures[row.run])} if row.run in figures else {}),
            }
            for row in rows
        ]
        dump({"runs": documents, "failures": failures.documents()}, sys.stdout)
    elif rows:
        _print(rows, figures)
    else:
        say(f"no runs in the folder {folder}")


def _headlines(path: Path) -> Figures:
    """The figures of a list; none of a run whose files are damaged."""
    from wattstep.errors import DamagedRunError
    from wattstep.schema.figures import Figures
    from wattstep.schema.run_report import json_of
    from wattstep.store.cache import cached_of_run

    def compute() -> Any:
        from wattstep.run import load

        try:
            metrics = load(path).metrics
        except DamagedRunError:
            return {}
        headlines = {name: metrics.figure(name) for name in HEADLINES}
        return json_of({name: each for name, each in headlines.items() if each is not None})

    headlines: Figures = Figures.from_dict(cached_of_run("headlines", path, compute))
    return headlines


def _print(rows: Sequence[ListedRun], figures: Mapping[str, Figures]) -> None:
    """Date, what ran, step time, energy of a step, where it lies; the oldest first."""
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.folding import print_table
    from wattstep.report.values import brief, show

    cells = []
    for row in sorted(rows, key=_created):
        facts, headlines = row.facts, figures.get(row.run)
        what = f"{row.state}: {row.problem}"
        if facts is not None and row.problem is None:
            what = " ".join(filter(None, (facts.workload, brief(facts.arguments, MOST_ARGUMENTS))))
            what += f" ({row.state})" if row.state != "closed" else ""
        each = (None if headlines is None else headlines.figure(name) for name in HEADLINES)
        shown = ["" if figure is None else show(figure).value for figure in each]
        size = "" if facts is None or facts.batch_size is None else f"batch {facts.batch_size}"
        date = plain(_created(row))[:16].replace("T", " ")
        cells.append((date, plain(what), size, *shown, plain(row.run)))
    print_table(_table(cells), screen())


def _created(row: ListedRun) -> str:
    return "" if row.facts is None else row.facts.created


def _table(rows: Sequence[Sequence[str]]) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("date", "workload", "", "step time", "energy a step", "run"):
        numeric = heading in ("", "step time", "energy a step")
        whole = heading in ("date", "run")  # where a run lies is never broken
        grid.add_column(heading, justify="right" if numeric else "left", no_wrap=whole)
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _show(path: Path, as_json: bool) -> None:
    """The screen of a run, and what lies in its folder without belonging to it; or its files as JSON."""
    from wattstep.cli.showing import show_runs
    from wattstep.run import load

    run_json = load(path).info.to_dict()
    entries = {entry: _left_out(entry) for entry in sorted(path.iterdir())}
    left_out = {entry.name: why for entry, why in entries.items() if why is not None}
    if not as_json:
        show_runs([path], as_json=False)
        for name, why in left_out.items():
            print(f"not looked into: {plain(name)}: {why}")
        return
    from wattstep.report.json_document import dump

    files = {entry.name: entry.stat().st_size for entry, why in entries.items() if why is None}
    dump({"run": str(path), "files": files, "left_out": left_out, "run.json": run_json}, sys.stdout)


def _left_out(entry: Path) -> str | None:
    """Reason why an entry of a run's folder is no file of it; None where it is one."""
    if entry.is_symlink():
        return "it is a link"
    if entry.is_dir():
        return "it is a folder"
    return None if entry.is_file() else "it is no plain file"
