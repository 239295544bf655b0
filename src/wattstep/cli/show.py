"""`wattstep show`: a recorded run on one screen, or all its tables."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from wattstep.cli.options import Full, Json, Quiet, Runs


def show(
    runs: Runs = None,
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
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="What so many steps take: time, energy; with --grid and --price CO2 and cost.",
            metavar="N",
            min=1,
        ),
    ] = None,
    samples: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="The same for so many samples: 10 epochs of 50,000 are --samples 500000.",
            metavar="N",
            min=1,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a run cost on one screen; several runs in one table."""
    from wattstep.cli.folders import asked
    from wattstep.cli.showing import show_runs

    show_runs(
        asked(runs, "show"), json, full, quiet=quiet or json,
        grid=grid, price=price, steps=steps, samples=samples,
    )  # fmt: skip
