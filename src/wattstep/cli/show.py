"""`wattstep show`: a recorded run on one screen, or all its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattstep.cli.options import Full, Json


def show(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")
    ],
    full: Full = False,
    json: Json = False,
) -> None:
    """Show what a run cost on one screen; several runs in one table."""
    from wattstep.cli.folders import expand
    from wattstep.cli.showing import show_runs

    show_runs(expand(runs), json, full)
