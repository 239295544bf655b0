"""A sweep as tables on a terminal."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.report.front import Front, fronts
from wattstep.report.sweep_table import BOARD, Cell, facts, fit_table, unfit
from wattstep.report.terminal.folding import print_table
from wattstep.report.values import BYTES_NOTE, brief, plain
from wattstep.schema.sweep_report import SweepReport

_COURSE: Final = ("Outcomes", "Whole sweep took", "Of that, cool-down")  # in one line
_STYLES = {
    "trained": "",
    "skipped": "dim",
    "": "dim",
    "refused": "dim",
    "interrupted": "dim",
    "unrecorded": "red",
    "out of memory": "yellow",
    "killed": "red",
    "crashed": "red",
}


def print_sweep(sweep: SweepReport, console: Console) -> None:
    """Prints what fits, and why something does not.

    Args:
        sweep: Its result.
        console: Where to print.
    """
    _print_table(sweep, console)
    for front in fronts(sweep):
        _print_front(front, console)
    lines = {name: f"{name}: {text}" for name, text in facts(sweep)}
    course = " · ".join(lines.pop(name) for name in _COURSE if name in lines)
    for line in (*lines.values(), course):
        console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))
    failures = unfit(sweep, full=False)
    if failures:
        console.print(Text("\nWhat did not train or left a note, and why", style="bold"))
    for name, reason, evidence in failures:
        console.print(Padding(Text(f"{name}: {reason}"), (0, 0, 0, 2)))
        if evidence:
            console.print(Padding(Text("; ".join(evidence), style="dim"), (0, 0, 0, 4)))


def _print_table(sweep: SweepReport, console: Console) -> None:
    table = fit_table(sweep)
    console.print(Text("\nWhat fits: peak memory and step time by batch size", style="bold"))
    grid = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        show_edge=False,
    )
    grid.add_column("workload", overflow="fold")
    for batch in table.batches:
        grid.add_column(Text(f"batch {plain(batch)}"), justify="right", overflow="fold")
    grid.add_column("successful training?", overflow="fold")
    if table.source:
        grid.add_column("the paper's board", overflow="fold")
    for row in table.rows:
        verdict = Text(row.verdict, style="" if row.fits else "yellow")
        paper = [Text(row.paper, style="dim")] if table.source else []
        grid.add_row(Text(brief(row.title)), *(_cell(cell) for cell in row.cells), verdict, *paper)
    print_table(grid, console)
    console.print(Padding(Text(BYTES_NOTE, style="dim"), (0, 0, 0, 2)))
    if table.source:
        words = f"the paper's board: {BOARD}; {table.source}"
        console.print(Padding(Text(words, style="dim"), (0, 0, 0, 2)))


def _print_front(front: Front, console: Console) -> None:
    """The ways to train one workload, those that none beats in both marked."""
    console.print(Text(f"\n{front.workload}: time and energy of a sample", style="bold"))
    console.print(Text(front.answer))
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    for name in ("configuration", "time", "energy", "mean power", "on the front"):
        grid.add_column(name, justify="right" if name in ("time", "energy") else "left")
    for point in front.points:
        power = point.power.value if point.power else ""
        mark = Text("yes" if point.on_front else "", style="green")
        energy = f"{point.energy.value} {point.energy.status}"
        grid.add_row(Text(brief(point.title)), point.time, Text(energy), Text(power), mark)
    print_table(grid, console)


def _cell(cell: Cell) -> Text:
    return Text("\n".join(map(plain, cell.words)), style=_STYLES.get(cell.status, ""))
