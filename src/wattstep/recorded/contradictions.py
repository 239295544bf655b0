"""Channels of an imported log that say different things of the same: watts beside joules, or beside volts and amperes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.recorded.imported import Imported
from wattstep.recorded.power import spoken
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import Channel, thing_of
from wattstep.schema.spelling import rounded

APART: Final = 2.0  # times: further apart no two sensors of one thing are, be they ever so coarse
# Volts times amperes of an AC meter are more than its watts, by less than so many times.
APART_AC: Final = 4.0
CONTRADICTING: Final = (
    "{} makes {} W on the mean, {} says {} W over the same {}: they contradict each other{}. "
    "Figures here are those of {}: look whose unit is another than its heading says"
)
_FACTORS: Final = {3.6: "mWh", 1e3: "milli", 3600.0: "Wh", 1e6: "micro", 3.6e6: "kWh"}
_NEAR: Final = 0.15  # of such a factor
_OF_HALF: Final = re.compile(r"volt(?:age|s)?|vbus|current|amp(?:ere)?s?")


class Log(Protocol):
    """Samples of a run; as of `recorded.series.Series`."""

    @property
    def imported(self) -> Imported: ...  # noqa: D102

    def raw(self, name: str) -> tuple[IntArray, FloatArray]: ...  # noqa: D102

    def curve(self, channel: Channel) -> Curve: ...  # noqa: D102


def contradictions(channels: Sequence[Channel], log: Log) -> dict[str, str]:
    """Notes by channel of what cannot all be right, with what is used.

    Args:
        channels: Those with samples.
        log: Their values.
    """
    of_unit = {unit: _by_thing(channels, unit, log) for unit in ("W", "V", "A", "J")}
    notes: dict[str, str] = {}
    for thing, power in of_unit["W"].items():
        energy, volts, amperes = (of_unit[unit].get(thing) for unit in ("J", "V", "A"))
        if energy is not None and (note := _of_energy(energy, power, log)):
            notes[energy.name] = notes[power.name] = note
        if (
            volts is not None
            and amperes is not None
            and (note := _of_product(volts, amperes, power, log))
        ):
            notes[power.name] = "; ".join(filter(None, [notes.get(power.name), note]))
    return notes


def _by_thing(
    channels: Sequence[Channel], unit: str, log: Log
) -> Mapping[tuple[str, str], Channel]:
    kind = "counter" if unit == "J" else "gauge"
    return {
        (log.imported.file_of(c.name), thing_of(_OF_HALF.sub("", c.name.lower()), c.unit)): c
        for c in channels
        if c.unit == unit and c.kind == kind
    }


def _of_energy(energy: Channel, power: Channel, log: Log) -> str | None:
    """Note on a counter and a gauge of the same thing that make different powers."""
    counted, integrated = log.curve(energy), log.curve(power)
    steps = np.diff(counted.total)
    begin, end = (edge(counted.t_ns[at], integrated.t_ns[at]) for edge, at in ((max, 0), (min, -1)))
    if end <= begin or not (steps > 0).any():
        return None
    span = np.array([[begin, end]])
    (by_energy, counted_s), (by_power, integrated_s) = (
        (abs(float(gain[0])), float(seconds[0]))
        for gain, seconds in (curve.gains(span) for curve in (counted, integrated))
    )
    if not counted_s or not integrated_s:
        return None
    by_energy, by_power = by_energy / counted_s, by_power / integrated_s
    # A counter may be a step behind at either end.
    behind = 2 * float(steps[steps > 0].min()) / counted_s
    less, more = sorted((by_energy, by_power))
    if more <= APART * less or more - less <= behind:
        return None
    used = power if power.role == "power_total" and energy.role != "energy_total" else energy
    seconds = float(end - begin) * 1e-9
    return _note(energy.name, by_energy, power.name, by_power, seconds, used.name)


def _of_product(volts: Channel, amperes: Channel, power: Channel, log: Log) -> str | None:
    """Note on watts that are not what volts and amperes make, whatever the power factor."""
    t_ns, watts = log.raw(power.name)
    halves = [_at(t_ns, *log.raw(channel.name)) for channel in (volts, amperes)]
    with np.errstate(over="ignore"):
        product = np.abs(halves[0] * halves[1])
    known = np.isfinite(product + watts)
    if not known.any():
        return None
    by_power, by_product = float(np.abs(watts[known]).mean()), float(product[known].mean())
    less, more = sorted((by_power, by_product))
    if more <= APART_AC * less:
        return None
    seconds = float(t_ns[known][-1] - t_ns[known][0]) * 1e-9
    words = f"{volts.name} times {amperes.name}"
    return _note(words, by_product, power.name, by_power, seconds, power.name)


def _at(t_ns: IntArray, times: IntArray, values: FloatArray) -> FloatArray:
    """Values at other times: those of the same row, else between two."""
    if np.array_equal(t_ns, times):
        return values
    known = np.isfinite(values)
    at: FloatArray = np.interp(t_ns - t_ns[0], times[known] - t_ns[0], values[known])
    return at


def _note(what: str, by_it: float, power: str, by_power: float, seconds: float, used: str) -> str:
    less, more = sorted((by_it, by_power))
    apart = ""
    if less:
        factor = more / less
        unit = next((each for of, each in _FACTORS.items() if abs(factor / of - 1) < _NEAR), "")
        apart = f", {rounded(factor)} times apart{f' ({unit}?)' * bool(unit)}"
    return CONTRADICTING.format(
        what, rounded(by_it), power, rounded(by_power), spoken(seconds), apart, used
    )
