"""Prints recorded runs: a screen, one table of several, all tables, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from wattstep.cli.screen import screen


def show_runs(paths: Sequence[Path], as_json: bool, full: bool = False) -> None:
    """Opens the runs and prints what they cost.

    Args:
        paths: Of the runs.
        as_json: As one JSON document.
        full: All tables of each, in place of one screen.
    """
    from wattstep.run import load

    runs = [load(path) for path in paths]
    reports = [run.report() for run in runs]
    if as_json:
        from wattstep.report.json_document import dump

        dump({"runs": [report.to_dict() for report in reports]}, sys.stdout)
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
