"""What a training comes to, on a terminal: a line each for its steps and for a thousand, or for what is asked."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from wattstep.report.bill import Bill
from wattstep.report.sweep_table import spell_duration
from wattstep.report.values import show
from wattstep.schema.figure import Figure

BRIEF = 10.0  # seconds; from here on they are spelt in minutes and hours


def print_bill(bills: Iterable[Bill], console: Console, whose: str = "") -> None:
    """Prints time, energy, CO2 and cost, each line with the run's name before it where there are several."""
    for one in bills:
        energy = show(one.energy)
        parts = [_duration(one.time)]
        parts.append("energy is missing" if energy.missing else energy.text)
        if one.carbon is not None:
            parts.append(f"{show(one.carbon).value} CO2 {one.carbon.method}")
        if one.cost is not None:
            parts.append(f"cost {show(one.cost).value} {one.cost.method}")
        console.print(Text(f"{whose}{one.count:,} {one.of}: " + " · ".join(parts)))


def _duration(time: Figure) -> str:
    """A time as people say it, with its interval."""
    shown = show(time)
    if shown.missing:
        return f"time: — {shown.reason}"
    if time.value is None or time.value < BRIEF:
        return shown.text
    if time.low is None:
        return spell_duration(time.value)
    low = spell_duration(time.low)
    ends = f"at least {low}" if time.high is None else f"{low} to {spell_duration(time.high)}"
    return f"{spell_duration(time.value)} ({ends})"
