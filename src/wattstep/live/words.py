"""A snapshot in one line, for progress lines: what was used and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

from wattstep.live.snapshot import Snapshot
from wattstep.recorded.power import spoken
from wattstep.schema.figure import Figure, Status

LEAST_SAID: Final = 0.01  # of a time: a lower end that is less says nothing


def short_text(snapshot: Snapshot) -> str:
    """Time left, joules used and to come, and the battery, in a few words; "" where nothing is known.

    What no sensor measured says so: "148 J used, 98 J (95 to 101) to finish, modelled".
    """
    return words_of(snapshot.figures)


def words_of(figures: Mapping[str, Figure]) -> str:
    """Sentence of the figures of a snapshot, or of some of them."""
    time_left, energy_left = figures.get("time_left"), figures.get("energy_left")
    phrases = []
    if _known(time_left):
        phrases.append(f"{lasting(time_left)} left")
    if _known(used := figures.get("energy")):
        phrases.append(f"{joules(used)} used")
        if _known(energy_left) and energy_left.value:
            phrases.append(f"{joules(energy_left)} to finish")
        if used.status is not Status.MEASURED:
            phrases[-1] += f", {used.status.value}"
    return ", ".join([*phrases, *_battery(figures.get("battery"), figures.get("battery_end"))])


def _known(figure: Figure | None) -> TypeGuard[Figure]:
    return figure is not None and figure.value is not None


def _battery(now: Figure | None, end: Figure | None) -> list[str]:
    if now is None or now.value is None:
        return []
    if end is None or end.value is None:
        return [f"battery {100 * now.value:.0f} %"]
    if end.value <= 0:
        return [f"battery {100 * now.value:.0f} %, which will be empty before the end"]
    return [f"battery {100 * now.value:.0f} %, {100 * end.value:.0f} % at the end"]


def lasting(time: Figure) -> str:
    """A time that has a value, with its interval."""
    assert time.value is not None
    if time.low is None or time.high is None or time.low == time.high:
        return clock_time(time.value)
    if time.low < LEAST_SAID * time.value:  # steps are still to come: it is never nothing
        return f"{clock_time(time.value)} (at most {clock_time(time.high)})"
    return f"{clock_time(time.value)} ({clock_time(time.low)} to {clock_time(time.high)})"


def clock_time(seconds: float) -> str:
    """In s, minutes or hours."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 90:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.0f} s" if seconds >= 1 else spoken(max(seconds, 0.0))


def joules(energy: Figure) -> str:
    """An energy that has a value, with its interval, if it has one."""
    assert energy.value is not None
    factor, unit = (1e-3, "kJ") if energy.value >= 1000 else (1.0, "J")
    value = f"{factor * energy.value:.3g} {unit}"
    if energy.low is None or energy.high is None:
        return value
    return f"{value} ({factor * energy.low:.3g} to {factor * energy.high:.3g})"
