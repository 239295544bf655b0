"""The study of data movement on a terminal: a row for each net and batch, the CPU first."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.insight.compare.data_movement import CPU, PUBLISHED, SOURCE, Row, Study
from wattstep.report.data_movement import cautions, products_in_words, wins_in_words
from wattstep.report.values import show
from wattstep.schema.figure import Figure
from wattstep.schema.sanitize import plain
from wattstep.schema.spelling import quantity


def print_study(study: Study, console: Console) -> None:
    """Prints times, shares, rates and who wins, beside what was published.

    Args:
        study: The trainings.
        console: Where to print.
    """
    console.print()
    console.print(Text(plain(study.title), style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in (
        "net",
        "batch",
        "way",
        "step",
        "of the CPU",
        "at ceilings",
        "computing",
        "moving",
        "launches, gaps",
        "rate",
        "energy",
    ):
        side = "left" if heading in ("net", "way") else "right"
        table.add_column(heading, justify=side, overflow="fold")  # type: ignore[arg-type]  # one of rich's words
    for row in study.rows:
        for way in row.cells:
            table.add_row(*_cells(row, way))
    console.print(Padding(table, (0, 0, 0, 2)))
    for net in study.asked.nets:
        console.print(f"  {net}: {wins_in_words(study, net)}")
    for sentence in (*cautions(study), *products_in_words(study), *_no_energy(study)):
        console.print(f"  {plain(sentence)}")
    console.print(f"  Published, of other devices ({SOURCE}): {'; '.join(PUBLISHED.values())}.")


def _cells(row: Row, way: str) -> list[str]:
    figures = row.cells[way].figures
    first = way == CPU
    return [
        row.net if first else "", str(row.batch) if first else "", plain(way), _text(figures["step_time"]),
        *(("", "") if first else (_times(row.speed_up(way)), _times(row.predicted_speed_up(way)))),
        *(_text(figures[name]) for name in ("compute_share", "data_movement_share", "launch_share")),
        _text(figures["rate"]), _text(figures["energy_per_step"]),
    ]  # fmt: skip


def _times(speed_up: Figure) -> str:
    """A step over the CPU's; with the mark of what is predicted."""
    if not speed_up.value:
        return "–"
    return show(replace(speed_up, value=1 / speed_up.value, low=None, high=None), "times").value


def _text(figure: Figure) -> str:
    return "–" if figure.value is None else quantity(figure.value, figure.unit)


def _no_energy(study: Study) -> list[str]:
    """Why no energy is known; nothing where some is."""
    figures = [cell.figures["energy_per_step"] for row in study.rows for cell in row.cells.values()]
    if any(figure.value is not None for figure in figures):
        return []
    return [f"energy: {figure.reason}" for figure in figures if figure.reason][:1]
