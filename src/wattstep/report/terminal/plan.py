"""A plan on a terminal: one screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.plan import Estimate, Plan
from wattstep.report.plan_view import (
    answer,
    figure_rows,
    front_rows,
    headline,
    losing_lines,
    same_training,
)
from wattstep.report.terminal.folding import has_room
from wattstep.report.values import Shown

INDENT = (0, 0, 0, 2)


def print_plan(
    plan: Plan, console: Console, asked: tuple[Estimate, Sequence[str]] | None = None
) -> None:
    """Prints what is recommended, within what, the front, why others lose and what could go wrong.

    Args:
        plan: The plan.
        console: Where to print.
        asked: As of `Plan.why_not`.
    """
    console.print()
    console.print(Text(headline(plan), style="bold"))
    recommended = "Recommended: " if plan.chosen is not None else "No plan: "
    console.print(Padding(Text(f"{recommended}{answer(plan)}. {same_training(plan)}"), INDENT))
    console.print(Padding(_figures(plan), INDENT))
    _print_list("", plan.repeated, console)
    if plan.remedies:
        _print_list("What would change that", plan.remedies, console)
    _print_front(plan, console)
    _print_list("Why others lose", losing_lines(plan), console)
    if asked is not None:
        _print_list("Why not that", asked[1], console)
    _print_list("What could go wrong", plan.risks, console)


def _figures(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("predicted", no_wrap=True)
    table.add_column("", justify="right")
    table.add_column("at most", justify="right", no_wrap=True)
    table.add_column("holds with", justify="right", no_wrap=True)
    for row in figure_rows(plan):
        style = "" if row.holds else "bold yellow"
        table.add_row(row.label, row.shown.text, row.bound, Text(row.chance, style=style))
    return table


def _print_front(plan: Plan, console: Console) -> None:
    rows = front_rows(plan)
    if not rows:
        return
    console.print()
    of = f"{len(rows)} of {len(plan.front)}" if len(rows) < len(plan.front) else str(len(rows))
    console.print(Text(f"Beaten by none in time, energy and memory: {of}, predicted", style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column("configuration")
    for name in ("time", "energy", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limits", no_wrap=True)
    for row in rows:
        state = "the plan" if row.chosen else ("kept" if row.keeps else "not kept")
        table.add_row(row.text, *(_with_interval(each) for each in row.figures), state)
    if not has_room(table, console):
        table = _without_intervals(table, rows)
    console.print(Padding(table, INDENT))


def _without_intervals(wide: Table, rows: Sequence[object]) -> Table:
    """The same, for a narrow screen: intervals stand in the table of the plan."""
    narrow = Table(box=None, pad_edge=False)
    for column in wide.columns:
        narrow.add_column(
            column.header, justify=column.justify, no_wrap=column.no_wrap, overflow="fold"
        )
    for cells in zip(*(column.cells for column in wide.columns), strict=True):
        narrow.add_row(*(str(cell).partition(" (")[0] for cell in cells))
    return narrow


def _with_interval(shown: Shown) -> str:
    return "missing" if shown.missing else shown.text


def _print_list(title: str, lines: Iterable[str], console: Console) -> None:
    texts = list(lines)
    if not texts:
        return
    if title:
        console.print()
        console.print(Text(title, style="bold"))
    for line in texts:
        end = "" if line.endswith((".", "!")) else "."
        console.print(Padding(Text(f"- {line}{end}" if title else f"{line}{end}"), INDENT))
