"""Measured ceilings of an OpenCL device on a terminal: one screen, or all rows with their intervals."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wattstep.report.terminal.folding import print_table
from wattstep.report.values import NO_VALUE, brief, plain, show
from wattstep.schema.device_ceilings import CeilingRow, CeilingTable, DeviceCeilings
from wattstep.schema.figure import Figure


def print_device_ceilings(ceilings: DeviceCeilings, *, full: bool = False) -> None:
    """Prints them.

    Args:
        ceilings: What was measured.
        full: All rows, with intervals and what was chosen, in place of one screen.
    """
    console = Console()
    device, host = ceilings.device, ceilings.host
    console.print(
        Text(
            f"{brief(str(device['name']))}, {brief(str(device['platform']))} {brief(str(device['driver']))}: "
            f"{device['units']} compute units, {int(device['memory']) / 1e9:.3g} GB; beside it NumPy "
            f"{brief(str(host.get('numpy')))} ({brief(str(host.get('blas')))}), {host.get('threads')} threads"
        )
    )
    reasons: dict[str, None] = {}
    for table in ceilings.tables:
        rows = [row for row in table.rows if full or row.brief]
        if rows:
            _print(table, rows, full, console)
        reasons |= dict.fromkeys(_reasons(table, rows))
    console.print(
        "Best of the repetitions"
        + (
            ", in brackets from their median to the best"
            if full
            else "; --full has all, with intervals"
        )
        + ". Each product and convolution was held against float64.",
        style="dim",
    )
    for note in (*ceilings.notes, *reasons):
        console.print(f" ! {plain(note)}", markup=False, highlight=False)


def _print(table: CeilingTable, rows: list[CeilingRow], full: bool, console: Console) -> None:
    columns = [name for name in table.columns if any(name in row.figures for row in rows)]
    shown = Table(box=None, pad_edge=False)
    shown.add_column(Text(table.title))
    for name in columns:
        shown.add_column(Text(name), justify="right")
    details = full and any(row.detail for row in rows)
    if details:
        shown.add_column(Text("how"))
    for row in rows:
        cells = [Text(_cell(row.figures.get(name), full)) for name in columns]
        if details:
            cells.append(Text(brief(row.detail)))
        shown.add_row(Text(brief(row.label)), *cells)
    print_table(shown, console)


def _cell(figure: Figure | None, full: bool) -> str:
    if figure is None:
        return NO_VALUE
    text = show(figure)
    return f"{text.value} ({text.interval})" if full and text.interval else text.value


def _reasons(table: CeilingTable, rows: list[CeilingRow]) -> list[str]:
    """Why figures are missing."""
    return [
        f"{row.label}, {name}: {figure.reason}"
        for row in rows
        for name in table.columns
        if (figure := row.figures.get(name)) is not None and figure.missing
    ]
