"""Measured ceilings on a terminal: one row each, a column for each number of threads."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wattstep.report.terminal.folding import print_table
from wattstep.report.values import brief, plain, show
from wattstep.report.wording import label
from wattstep.schema.ceilings import Ceilings, spoken_threads
from wattstep.schema.figure import Figure


def print_ceilings(ceilings: Sequence[Ceilings], console: Console | None = None) -> None:
    """Prints them; intervals reach from the median of the repetitions to the best."""
    console = console or Console()
    table = Table(box=None, pad_edge=False)
    table.add_column("at most")
    for one in ceilings:
        table.add_column(Text(spoken_threads(one.threads)), justify="right")
    for name, figures in _rows(ceilings):
        table.add_row(Text(brief(name)), *(Text(_cell(figure)) for figure in figures))
    print_table(table, console)
    console.print(
        "Best of the repetitions, in brackets from their median to the best; wattstep explain RUN "
        "-s roofline sets the operations of a run against them.",
        style="dim",
    )
    for note in dict.fromkeys(
        f"{spoken_threads(one.threads)}: {n}" for one in ceilings for n in one.notes
    ):
        console.print(f" ! {plain(note)}", markup=False, highlight=False)


def _rows(ceilings: Sequence[Ceilings]) -> list[tuple[str, list[Figure | None]]]:
    rows: dict[str, dict[int, Figure]] = {}
    for number, one in enumerate(ceilings):
        for name, figure in one.compute.items():
            what, _, precision = name.partition(".")
            rows.setdefault(f"{label(what)}, {precision}", {})[number] = figure
        for level in one.levels:
            for what, figure in (("copy", level.copy), ("triad", level.triad)):
                rows.setdefault(f"{level.name}, {what}", {})[number] = figure
    return [(name, [row.get(n) for n in range(len(ceilings))]) for name, row in rows.items()]


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    shown = show(figure)
    return shown.value if shown.missing else f"{shown.value} ({shown.interval})"
