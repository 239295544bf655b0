"""Prints recorded runs: a screen, one table of several, all tables, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattstep.cli.lean import lean
from wattstep.cli.progress import list_progress
from wattstep.cli.screen import screen
from wattstep.errors import WattstepError

if TYPE_CHECKING:
    from wattstep.insight.advise.advice import Advice
    from wattstep.run import Run


def show_runs(
    paths: Sequence[Path],
    as_json: bool,
    full: bool = False,
    *,
    quiet: bool = True,
    grid: float | None = None,
    price: float | None = None,
    steps: int | None = None,
    samples: int | None = None,
    refusal: WattstepError | None = None,
    command: str | None = None,
) -> None:
    """Opens the runs and prints what they cost.

    Args:
        paths: Of the runs.
        as_json: As one JSON document.
        full: All tables of each, in place of one screen.
        quiet: Without progress on standard error.
        grid: Carbon intensity in g of CO2 a kWh, to show what the energy comes to.
        price: Of a kWh, likewise.
        steps: Number of steps, to show what they take and need.
        samples: Number of samples, likewise.
        refusal: What ended the command after them, for its JSON document.
        command: That recorded somebody's script, with all its arguments: advice repeats it.
    """
    from wattstep.report.bill import bill
    from wattstep.report.terminal.bill import print_bill
    from wattstep.run import load

    runs, reports = [], []
    with list_progress("reading", len(paths), quiet=quiet) as tell:
        for path in paths:
            tell(str(path))
            with lean():
                runs.append(load(path))
                reports.append(runs[-1].report())
    asked = any(each is not None for each in (grid, price, steps, samples))
    bills = [
        list(bill(report, grid=grid, price=price, steps=steps, samples=samples)) if asked else []
        for report in reports
    ]
    if as_json:
        from wattstep.report.json_document import dump

        documents = [report.to_dict() for report in reports]
        if asked:
            for document, own in zip(documents, bills, strict=True):
                document["bill"] = [one.to_dict() for one in own]
        dump({"runs": documents, **(refusal.document() if refusal else {})}, sys.stdout)
        return
    from wattstep.insight.advise.section import ranked
    from wattstep.report.terminal.run import print_comparison, print_runs
    from wattstep.report.terminal.summary import print_summary
    from wattstep.report.wording import titles

    console = screen()
    with console.capture() as captured:
        for name, own in zip(titles(reports), bills, strict=True):  # what was asked for, first
            print_bill(own, console, f"{name}: " if len(reports) > 1 else "")
        if asked:
            console.print()
    above = captured.get()
    console.file.write(above)
    if full:
        print_runs(reports, console)
    elif len(runs) == 1:
        advice = _in_full(ranked(runs[0]), runs[0], command)
        print_summary(reports[0], console, advice, above=above.count("\n"))
    else:
        print_comparison(reports, console)
        for path in paths:
            print(f"run: {path}")
        print("more: wattstep show RUN, wattstep compare RUN RUN, wattstep report RUN...")


def _in_full(
    advice: Sequence[Advice] | None, run: Run, command: str | None
) -> Sequence[Advice] | None:
    """Advice with the command that was given in place of what the run kept of it."""
    from wattstep.insight.advise.facts import profiling

    recorded = profiling(run.info)
    if not (advice and command and recorded):
        return advice
    return [replace(one, how=one.how.replace(recorded, command)) for one in advice]
