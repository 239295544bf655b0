"""`wattstep explain`: where the time and the energy of a run go, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import Json, Quiet
from wattstep.cli.saying import say


def explain(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")
    ],
    section: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--section", "-s", help="Only this section; again for another.", metavar="NAME"
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Where time and energy go: below the sampling interval, between operations, and what would help."""
    from rich.console import Console

    from wattstep.cli.folders import expand
    from wattstep.explaining import chosen_sections
    from wattstep.explaining import explain as explained
    from wattstep.reports.consoles.explain import print_section
    from wattstep.reports.json_document import dump
    from wattstep.run import load

    names = chosen_sections(section or [])
    console = Console()
    documents = []
    opened = [load(path) for path in expand(runs)]
    for run in opened:
        beside = [other for other in opened if other is not run]
        sections = []
        if not json:
            console.print(f"[bold]{run.path}[/bold]", highlight=False)
        for name in names:
            if not quiet:
                say(f"{run.path.name}: {name}")
            for found in explained(run, [name], beside):
                sections.append(found.document())
                if not json:
                    print_section(found, console)
        documents.append({"run": str(run.path), "sections": sections})
    if json:
        dump({"runs": documents}, sys.stdout)
