"""A snapshot in one line, for progress lines: what was used and what is left."""

from __future__ import annotations

from typing import TypeGuard

from wattstep.conditions.ahead import joules, lasting
from wattstep.records.figure import Figure, Status
from wattstep.watching.snapshot import Snapshot


def short_text(snapshot: Snapshot) -> str:
    """Time left, joules used and to come, and the battery, in a few words; "" where nothing is known.

    What no sensor measured says so: "148 J used, 98 J (95 to 101) to finish, modelled".
    """
    figures = snapshot.figures
    time_left, energy_left = figures.get("time_left"), figures.get("energy_left")
    said = []
    if _known(time_left):
        said.append(f"{lasting(time_left)} left")
    if _known(used := figures.get("energy")):
        said.append(f"{joules(used)} used")
        if _known(energy_left) and energy_left.value:
            said.append(f"{joules(energy_left)} to finish")
        if used.status is not Status.MEASURED:
            said[-1] += f", {used.status.value}"
    return ", ".join([*said, *_battery(figures.get("battery"), figures.get("battery_end"))])


def _known(figure: Figure | None) -> TypeGuard[Figure]:
    return figure is not None and figure.value is not None


def _battery(now: Figure | None, end: Figure | None) -> list[str]:
    if now is None or now.value is None:
        return []
    if end is None or end.value is None:
        return [f"battery {now.value:.0%}"]
    if end.value <= 0:
        return [f"battery {now.value:.0%}, which will be empty before the end"]
    return [f"battery {now.value:.0%}, {end.value:.0%} at the end"]
