"""Runs by one facet on a terminal: a block for each configuration, a row for each value."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wattstep.insight.compare.by_facet import MOVEMENT, SHOWN, ByFacet
from wattstep.report.terminal.folding import print_table
from wattstep.report.values import NO_VALUE, plain, show
from wattstep.report.wording import metric
from wattstep.schema.figure import Figure


def print_by_facet(compared: ByFacet, console: Console) -> None:
    """Prints it; beside each figure its ratio to the first row of its block."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(compared.facet, overflow="fold")
    for name in (*SHOWN, MOVEMENT):
        table.add_column(metric(name).label.lower(), justify="right", overflow="fold")
    for words, cells in compared.rows:
        if len(compared.rows) > 1:
            table.add_row(Text(plain(words or "all"), style="bold"))
        for value in compared.values:
            if value in cells:
                cell = cells[value]
                shown = [_with_ratio(cell.figures[name], cell.ratios.get(name)) for name in SHOWN]
                table.add_row(Text(plain(value)), *shown, _text(cell.figures[MOVEMENT]))
    print_table(table, console)
    for published in compared.published:
        console.print(Text(published.words))
    reasons = {
        figure.reason
        for _, cells in compared.rows
        for cell in cells.values()
        for figure in cell.figures.values()
        if figure.missing and figure.reason
    }
    for reason in sorted(reasons):
        console.print(Text(f"{NO_VALUE} {plain(reason)}", style="dim"))


def _with_ratio(figure: Figure, ratio: Figure | None) -> Text:
    text = _text(figure)
    if ratio is not None and ratio.value is not None:
        text.append(f" ({ratio.value:.2f}×)", style="dim")
    return text


def _text(figure: Figure) -> Text:
    shown = show(figure)
    return Text(NO_VALUE if shown.missing else shown.text)
