"""`wattstep targets`: what of ours is on a board; brings runs back from there, and removes the rest."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.options import Json, Out
from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.remote.ssh.leftovers import Leftovers


def targets(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="ssh://USER@BOARD[:PORT].")],
    jobs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[JOB...]", help="With --fetch: which ones; all without a name."),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Bring the runs of jobs that have ended back.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove everything of wattstep's from the board.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="With --clean: also jobs that run, and runs that were not fetched."
        ),
    ] = False,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """Show what wattstep left on a board: its installation, and jobs that run or wait."""
    from functools import partial

    from wattstep.remote.ssh.leftovers import open_leftovers

    if jobs and not fetch:
        raise InvalidValueError("jobs are named for --fetch", id="needs-fetch")
    if force and not clean:
        raise InvalidValueError("--force is for --clean", id="needs-clean")
    leftovers = open_leftovers(target, partial(print, file=sys.stderr))
    try:
        fetched = leftovers.fetch(out, jobs or []) if fetch else []
        if clean:
            leftovers.clean(force=force)
        _show(leftovers, fetched, json)
    finally:
        leftovers.close()


def _show(leftovers: Leftovers, fetched: list[Path], as_json: bool) -> None:
    contents = leftovers.look()
    document: dict[str, Any] = {
        "target": "ssh:board",
        "installed": bool(contents.installed),
        "bytes": contents.size,
        "free_bytes": contents.free,
        "python": list(contents.version),
        "libraries": dict(contents.libraries),
        "jobs": [asdict(job) for job in contents.jobs],
        "fetched": [str(path) for path in fetched],
    }
    if as_json:
        from wattstep.report.json_document import dump

        dump(document, sys.stdout)
        return
    from wattstep.remote.ssh.install import spell_bytes

    for path in fetched:
        print(f"fetched: {path}")
    if not contents.size and not contents.jobs:
        print(f"nothing of wattstep's is on the board ({contents.python})")
        return
    installed = "an installation" if contents.installed else "no installation"
    print(f"on the board: {installed}, {spell_bytes(contents.size)} in all ({contents.python})")
    for job in contents.jobs:
        print(f"{job.id}  {WORDS[job.state]}  {job.title}")


WORDS = {
    "running": "running",
    "finished": "finished, waits to be fetched",
    "restarted": "cut short: the board was restarted",
    "died": "cut short: its process is gone",
}
