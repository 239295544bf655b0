"""Prints recorded runs: a screen, one table of several, all tables, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from wattstep.cli.screen import screen


def show_runs(
    paths: Sequence[Path],
    as_json: bool,
    full: bool = False,
    *,
    grid: float | None = None,
    price: float | None = None,
) -> None:
    """Opens the runs and prints what they cost.

    Args:
        paths: Of the runs.
        as_json: As one JSON document.
        full: All tables of each, in place of one screen.
        grid: Carbon intensity in g of CO2 a kWh, to show what the energy comes to.
        price: Of a kWh, likewise.
    """
    from wattstep.report.bill import bill
    from wattstep.report.terminal.bill import print_bill
    from wattstep.run import load

    runs = [load(path) for path in paths]
    reports = [run.report() for run in runs]
    asked = grid is not None or price is not None
    if as_json:
        from wattstep.report.json_document import dump

        documents = [report.to_dict() for report in reports]
        if asked:
            for document, report in zip(documents, reports, strict=True):
                bills = bill(report, grid=grid, price=price)
                document["bill"] = [one.to_dict() for one in bills]
        dump({"runs": documents}, sys.stdout)
        return
    from wattstep.insight.advise.section import ranked
    from wattstep.report.terminal.run import print_comparison, print_runs
    from wattstep.report.terminal.summary import print_summary

    console = screen()
    if full:
        print_runs(reports, console)
    elif len(runs) == 1:
        print_summary(reports[0], console, ranked(runs[0]))
    else:
        print_comparison(reports, console)
        for path in paths:
            print(f"run: {path}")
    if asked:
        for report in reports:
            print_bill(bill(report, grid=grid, price=price), console)
