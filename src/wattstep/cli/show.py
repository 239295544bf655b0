"""`wattstep show`: a recorded run on one screen, or all its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import Full, Json


def show(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")
    ],
    full: Full = False,
    grid: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Carbon intensity of the grid in g of CO2 a kWh: adds what the energy comes to.",
            metavar="G",
            min=0,
        ),
    ] = None,
    price: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Price of a kWh, in any currency: adds what the energy costs.",
            metavar="PRICE",
            min=0,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a run cost on one screen; several runs in one table."""
    from wattstep.cli.folders import expand
    from wattstep.cli.showing import show_runs

    show_runs(expand(runs), json, full, grid=grid, price=price)
