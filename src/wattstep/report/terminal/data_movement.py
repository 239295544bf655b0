"""The study of data movement on a terminal: a row for each net and batch, the CPU first."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.insight.compare.data_movement import CPU, PUBLISHED, SOURCE, WAYS, Row, Study
from wattstep.schema.figure import Figure
from wattstep.schema.opencl import MODES
from wattstep.schema.sanitize import plain
from wattstep.schema.spelling import quantity

SHARED = (
    "Host and device share their memory here: a copy is plumbing within one memory, and what it takes "
    "says nothing of a GPU's bus. The same command on a GPU's OpenCL is what counts."
)


def print_study(study: Study, console: Console) -> None:
    """Prints times, shares, rates and who wins, beside what was published.

    Args:
        study: The trainings.
        console: Where to print.
    """
    name = plain(str(study.device.get("name", "OpenCL")))
    console.print()
    console.print(Text(f"Computing and moving data: the CPU beside {name}", style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in (
        "net",
        "batch",
        "way",
        "step",
        "of the CPU",
        "computing",
        "moving",
        "launches, gaps",
        "rate",
        "energy",
    ):
        side = "left" if heading in ("net", "way") else "right"
        table.add_column(heading, justify=side, overflow="fold")  # type: ignore[arg-type]  # one of rich's words
    for row in study.rows:
        for way in WAYS:
            table.add_row(*_cells(row, way))
    console.print(Padding(table, (0, 0, 0, 2)))
    for net in study.asked.nets:
        console.print(f"  {net}: {_wins(study, net)}")
    if study.shared:
        console.print(f"  {SHARED}")
    if reason := _no_energy(study):
        console.print(f"  energy: {reason}")
    console.print(f"  Published, of other devices ({SOURCE}): {'; '.join(PUBLISHED.values())}.")


def _cells(row: Row, way: str) -> list[str]:
    figures = row.cells[way].figures
    first = way == CPU
    ratio = row.speed_up(way)
    return [
        row.net if first else "", str(row.batch) if first else "", way, _text(figures["step_time"]),
        "" if first else ("–" if not ratio.value else f"{1 / ratio.value:.2f} ×"),
        *(_text(figures[name]) for name in ("compute_share", "data_movement_share", "launch_share")),
        _text(figures["rate"]), _text(figures["energy_per_step"]),
    ]  # fmt: skip


def _text(figure: Figure) -> str:
    return "–" if figure.value is None else quantity(figure.value, figure.unit)


def _wins(study: Study, net: str) -> str:
    found = [(mode, study.wins(net, mode)) for mode in MODES]
    won = [f"{mode} from batch {batch} on" for mode, batch in found if batch is not None]
    return f"faster than the CPU beyond doubt: {', '.join(won)}" if won else (
        "at no batch of these faster than the CPU beyond doubt"
    )  # fmt: skip


def _no_energy(study: Study) -> str:
    """Why no energy is known; "" where some is."""
    figures = [row.cells[way].figures["energy_per_step"] for row in study.rows for way in WAYS]
    if any(figure.value is not None for figure in figures):
        return ""
    return next((figure.reason for figure in figures if figure.reason), "")
