"""What a run's energy comes to, on a terminal: a line each for its steps and for a thousand."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from wattstep.report.bill import Bill
from wattstep.report.values import show


def print_bill(bills: Iterable[Bill], console: Console) -> None:
    """Prints energy, CO2 and cost."""
    for one in bills:
        energy = show(one.energy)
        if energy.missing:
            console.print(Text(f"energy of {one.steps:,} steps: — {energy.reason}", style="dim"))
            continue
        parts = [f"{one.steps:,} steps: {energy.text}"]
        if one.carbon is not None:
            parts.append(f"{show(one.carbon).value} CO2 {one.carbon.method}")
        if one.cost is not None:
            parts.append(f"{show(one.cost).value} {one.cost.method}")
        console.print(Text(" · ".join(parts)), soft_wrap=True)
