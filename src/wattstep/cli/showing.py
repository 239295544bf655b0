"""Prints recorded runs: the table, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def show_runs(paths: Sequence[Path], as_json: bool) -> None:
    """Opens the runs and prints what they cost."""
    from wattstep.run import load

    reports = [load(path).report() for path in paths]
    if as_json:
        from wattstep.report.json_document import dump

        dump({"runs": [report.to_dict() for report in reports]}, sys.stdout)
        return
    from rich.console import Console

    from wattstep.report.terminal.run import print_runs

    console = Console()
    print_runs(reports, console)
    console.print()
    names = " ".join(str(path) for path in paths)
    console.print(
        f"More: wattstep report {names} -o report.html",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
