"""Channels of a log that tell the same twice: which of them counts, and where they contradict each other.

Watts beside joules, or beside volts and amperes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.recorded.imported import Imported
from wattstep.recorded.power import EnergySource, spoken
from wattstep.recorded.refresh import resolution_of
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import Channel, thing_of
from wattstep.schema.figure import Status
from wattstep.schema.spelling import rounded

APART: Final = 2.0  # times: further apart no two sensors of one thing are, of which both are right
SAME: Final = 0.01  # of an energy: nearer nothing tells them apart but how they were written
APART_HERE: Final = (
    0.1  # likewise, of sensors that were read here: the power of some looks for a part of the time
)
FINER: Final = 2  # times as many new values as the counter's: power tells more than it
STILL: Final = 0.05  # of the time, at least, a counter stood still that is told of
# Volts times amperes of an AC meter are more than its watts, by less than so many times.
APART_AC: Final = 4.0
CONTRADICTING: Final = "{} makes {} W on the mean, {} says {} W over the same {}: they contradict each other{}. Figures here are those of {}"
OTHER_UNIT: Final = ": look whose unit is another than its heading says"
HELD: Final = ", their intervals hold both"
_FACTORS: Final = {3.6: "mWh", 1e3: "milli", 3600.0: "Wh", 1e6: "micro", 3.6e6: "kWh"}
_NEAR: Final = 0.15  # of such a factor
_OF_HALF: Final = re.compile(r"volt(?:age|s)?|vbus|current|amp(?:ere)?s?")


class Log(Protocol):
    """Samples of a run; as of `recorded.series.Series`."""

    @property
    def imported(self) -> Imported: ...  # noqa: D102

    def raw(self, name: str) -> tuple[IntArray, FloatArray]: ...  # noqa: D102

    def curve(self, channel: Channel) -> Curve: ...  # noqa: D102

    def standstill(self, name: str) -> IntArray: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """What a channel says otherwise than another of the same.

    Attributes:
        note: What each of them says, and which is used.
        other: The channel whose energy the figures must hold, too; None: no channel has it.
        apart: How far that is off, as a part of this one's; None: of nothing.
    """

    note: str
    other: Channel | None = None
    apart: float | None = None


_Samples: TypeAlias = tuple[IntArray, FloatArray]  # times in ns; values, NaN: failed reads


def counter_counts(counter: _Samples, gauge: _Samples, stood: IntArray) -> bool:
    """True if of two that tell the energy of one supply the counter counts, else power does.

    A counter loses nothing between two reads. It does not count where it stands still, or where
    power gives more than twice as many new values: then it is too coarse, or was read too seldom.
    Nor does it where it was stuck for a while in which power went on.

    Args:
        counter: Its samples in J.
        gauge: Those of power in W.
        stood: When it may have been stuck, as of `standstill`.
    """
    counter, gauge = _known(counter), _known(gauge)
    moves, news = (int(np.count_nonzero(np.diff(value))) for _, value in (counter, gauge))
    return moves > 0 and news <= FINER * moves and not _went_on(gauge, stood)


def _known(samples: _Samples) -> _Samples:
    known = np.isfinite(samples[1])
    return samples[0][known], samples[1][known]


def _went_on(gauge: _Samples, stood: IntArray) -> bool:
    """True if power went on in such a stretch; where it stands still, too, the log may have written both once more."""
    times, watts = gauge
    return any(
        len(np.unique(watts[(times > begin + (end - begin) // 2) & (times <= end)])) > 1
        for begin, end in stood.tolist()
    )


def contradictions(
    channels: Sequence[Channel], log: Log, same: float = SAME
) -> dict[str, Contradiction]:
    """What cannot all be right, by channel.

    Args:
        channels: Those with samples.
        log: Their values.
        same: By how much of an energy two of the same supply may differ beside what is known of them.
    """
    of_unit = {unit: _by_thing(channels, unit, log) for unit in ("W", "V", "A", "J")}
    found: dict[str, Contradiction] = {}
    for thing, power in of_unit["W"].items():
        energy, volts, amperes = (of_unit[unit].get(thing) for unit in ("J", "V", "A"))
        if energy is not None:
            found |= _of_energy(energy, power, log, same)
        if (
            volts is not None
            and amperes is not None
            and (note := _of_product(volts, amperes, power, log))
        ):
            before = found.get(power.name, Contradiction(note=""))
            notes = "; ".join(filter(None, [before.note, note]))
            found[power.name] = replace(before, note=notes)
    return found


def _by_thing(
    channels: Sequence[Channel], unit: str, log: Log
) -> Mapping[tuple[str, str], Channel]:
    kind = "counter" if unit == "J" else "gauge"
    return {
        (log.imported.file_of(c.name), thing_of(_OF_HALF.sub("", c.name.lower()), c.unit)): c
        for c in channels
        if c.unit == unit and c.kind == kind
    }


def _of_energy(energy: Channel, power: Channel, log: Log, same: float) -> dict[str, Contradiction]:
    """Of a counter and a gauge of the same thing that are further apart than both can be right."""
    counted, integrated = log.curve(energy), log.curve(power)
    steps = np.diff(counted.total)
    begin, end = (edge(counted.t_ns[at], integrated.t_ns[at]) for edge, at in ((max, 0), (min, -1)))
    if end <= begin or not (steps > 0).any():
        return {}
    by_energy, by_power, shared_s = _while_both(counted, integrated, begin, end)
    if not shared_s:
        return {}
    by_energy, by_power = by_energy / shared_s, by_power / shared_s
    less, more = sorted((by_energy, by_power))
    known = _behind(counted, integrated, begin, end) + _of_samples(
        power, integrated, log, begin, end
    )
    if more - less <= same * more + known / shared_s:
        return {}
    stood = log.standstill(energy.name)
    counts = counter_counts(log.raw(energy.name), log.raw(power.name), stood)
    used = energy if counts else power
    watts = (energy.name, by_energy, power.name, by_power)
    note = _note(*watts, shared_s, used.name, _still(energy, counted, begin, end) + HELD)
    apart = more - less
    return {
        mine.name: Contradiction(note=note, other=other, apart=apart / of if of else None)
        for mine, of, other in ((energy, by_energy, power), (power, by_power, energy))
    }


def _while_both(
    counted: Curve, integrated: Curve, begin: int, end: int
) -> tuple[float, float, float]:
    """What each gained in J while both were known, neither in a gap, and how long that was in s."""
    times = np.unique(np.concatenate([[begin, end], counted.t_ns, integrated.t_ns]))
    times = times[(times >= begin) & (times <= end)]
    parts = np.stack([times[:-1], times[1:]], axis=1)
    (by_counter, counted_s), (by_power, integrated_s) = (
        curve.gains(parts) for curve in (counted, integrated)
    )
    both = (counted_s > 0) & (integrated_s > 0)
    counter_j, power_j = (abs(float(each[both].sum())) for each in (by_counter, by_power))
    return counter_j, power_j, float(counted_s[both].sum())


def _behind(counted: Curve, integrated: Curve, begin: int, end: int) -> float:
    """Energy in J that a counter may be behind at either end: a step, or what power tells of its usual interval there."""
    new = counted.renewed.t_ns
    usual = int(np.median(np.diff(new))) if len(new) > 1 else 0
    steps = np.diff(counted.total)
    at_ends = np.array([[begin, min(begin + usual, end)], [max(end - usual, begin), end]])
    told, _ = integrated.gains(at_ends)
    least = float(steps[steps > 0].min())
    return float(np.maximum(np.nan_to_num(np.abs(told)), least).sum())


def _of_samples(power: Channel, curve: Curve, log: Log, begin: int, end: int) -> float:
    """Energy in J by which samples of power may be off: between them, by their steps, by their delay."""
    t_ns, watts = log.raw(power.name)
    source = EnergySource(curve=curve, status=Status.MEASURED, source="", gauge=(t_ns, watts))
    between = source.sampling_error(np.array([begin]), np.array([end]))
    known = watts[np.isfinite(watts)]
    half_step = (resolution_of(known, 0.0) or 0.0) / 2 * float(end - begin) * 1e-9
    return between + half_step + source.late_s[1] * float(np.ptp(known))


def _still(energy: Channel, curve: Curve, begin: int, end: int) -> str:
    """How long the counter stood still at the longest, where that is much of the time."""
    inside = (curve.t_ns >= begin) & (curve.t_ns <= end)
    t_ns, steps = curve.t_ns[inside], np.diff(curve.total[inside])
    if not len(t_ns):  # it was read before and after that alone
        return ""
    at = np.concatenate([[0], np.flatnonzero(steps) + 1, [len(t_ns)]])  # reads that found it new
    longest = float(
        (t_ns[at[1:] - 1] - t_ns[at[:-1]]).max()
    )  # up to the last that found it the same
    usual = float(np.median(np.diff(t_ns[at[:-1]]))) if len(at) > 2 else 0.0
    if longest < STILL * (end - begin) or longest < 10 * usual:
        return ""
    return f" ({energy.name} stood still for {spoken(longest * 1e-9)})"


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


def _note(
    what: str,
    by_it: float,
    power: str,
    by_power: float,
    seconds: float,
    used: str,
    more_words: str = "",
) -> str:
    less, more = sorted((by_it, by_power))
    apart = ""
    if less and more > APART * less:
        factor = more / less
        unit = next((each for of, each in _FACTORS.items() if abs(factor / of - 1) < _NEAR), "")
        apart = f", {rounded(factor)} times apart{f' ({unit}?)' * bool(unit)}"
    note = CONTRADICTING.format(
        what, rounded(by_it), power, rounded(by_power), spoken(seconds), apart, used
    )
    return note + more_words + OTHER_UNIT * (more > APART * less)
