"""A daily training as tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.report import daily_tables
from wattstep.report.terminal.folding import print_table
from wattstep.report.values import Shown
from wattstep.schema.daily_report import DailyBatch, DailyReport


def print_daily(daily: DailyReport, console: Console) -> None:
    """Prints what each day brought and cost, a table for each batch size.

    Args:
        daily: Its result.
        console: Where to print.
    """
    console.print()
    console.print(Text(daily_tables.heading(daily), style="bold"))
    for line in daily_tables.facts(daily):
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    for batch in daily.batches:
        _print_batch(batch, daily_tables.columns(daily), console)
    for number, reason in enumerate(daily_tables.reasons(daily)):
        console.print(Padding(Text(reason), (int(number == 0), 0, 0, 2)))
    console.print(Padding(Text(daily_tables.paper_note(daily)), (1, 0, 0, 2)))


def _print_batch(batch: DailyBatch, columns: tuple[tuple[str, str], ...], console: Console) -> None:
    steps = batch.steps_per_day
    title = f"Batch {batch.batch_size}, {steps} step{'' if steps == 1 else 's'} a day"
    if not batch.complete:
        title += " (not complete: the same command goes on)"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.add_column("day", justify="right")
    for _, label in columns:
        table.add_column(label, justify="right")
    for day, cells in daily_tables.rows(batch, columns):
        table.add_row(str(day), *map(_written, cells))
    sums = map(_written, daily_tables.totals(batch, columns))
    table.add_row("all", *sums, style="bold")
    console.print()
    print_table(table, console, indent=2)
    last = batch.days[-1]
    notes = [f"accuracy on day {last.day}: {daily_tables.interval(last.accuracy)}"]
    if last.gain is not None:
        notes.append(f"gain since day 0: {daily_tables.interval(last.gain)}")
    for note in notes:
        console.print(Padding(Text(note), (0, 0, 0, 2)))


def _written(cell: Shown | None) -> Text:
    return Text("" if cell is None else cell.value)
