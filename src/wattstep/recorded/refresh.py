"""Refresh interval and resolution of a source, found from its samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.spelling import rounded
from wattstep.stats.student import half_width

LEAST_CHANGES = 4  # fewer say nothing of an interval
FEW = 0.02  # of the gaps: shorter ones are taken for single glitches
HOLE = 3.0  # sample spacings: a gap between samples in which anything may have happened
MOST_DIGITS = 9  # of a number in a log: finer ones come from a calculation
COARSE = 0.1  # of the least value: a unit that is no accident of a few values is smaller
MANY = 6  # distinct values, for a coarser one
LEAST_LEVELS = 5  # distinct values: fewer are those of a load as well as of a sensor
LEAST_STEPS = 3  # between values: fewer show no common one
MOST_STEPS = 1000  # are looked at: more would take time and tell no more
BASES = 40
ALMOST_ALL = 0.97  # of the differences are multiples of a resolution
NEAR = 0.1  # of a resolution: as near as a multiple has to be
MOST_MULTIPLES = 12  # beyond, a multiple of anything is near
SLOWER = 1.3  # sample spacings: from here on, the source is slower than it is read
HARDLY_ANY = 0.05  # of the samples: as many repeat a value by chance


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """Refresh interval and resolution of a source's samples.

    Attributes:
        interval: Time from one new value to the next in s. Where every read found a new value, only
            its upper bound is known: `low` is 0.
        resolution: Common step of the values in the unit of the channel, or None where there is none.
        repeated: Share of the samples that repeat the value before them: no new information.
        spacing_s: Median time between samples in s.
        slower: Whether the source was seen to give values clearly more slowly than it was read, at
            three reads of four or less. A load that stands still looks the same: the interval is then
            that of the load, and what is said of the source errs on the safe side.
    """

    interval: Figure
    resolution: float | None
    repeated: float
    spacing_s: float
    slower: bool


def refresh(
    t_ns: IntArray,
    value: FloatArray,
    source: str,
    least: float = 0.0,
    status: Status | None = None,
    thinned_ns: IntArray | None = None,
) -> Refresh:
    """The true update interval and resolution of a channel.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,).
        value: The samples; NaN: failed read.
        source: What they were read from.
        least: The unit of the source's integers (1 mW): no resolution is smaller.
        status: Of the samples; None: measured.
        thinned_ns: When stretches begin of which single samples were not kept, in order: their length
            is no time between reads. None: there are none.
    """
    known = np.isfinite(value)
    t_ns, value = t_ns[known], value[known]
    beside = np.ones(max(len(t_ns) - 1, 0), bool)  # two samples of which no other lies between
    if thinned_ns is not None:
        beside = np.diff(np.searchsorted(thinned_ns, t_ns)) == 0
    if not beside.any():
        return Refresh(
            interval=missing("s", "fewer than two samples"), resolution=None, repeated=0.0,
            spacing_s=math.nan, slower=False,
        )  # fmt: skip
    spacing = float(np.median(np.diff(t_ns)[beside])) * 1e-9
    changed = (np.diff(value) != 0) & beside
    interval = _interval(t_ns, changed, ~beside, spacing, source, status or Status.MEASURED)
    return Refresh(
        interval=interval,
        resolution=resolution_of(value, least),
        repeated=float(1 - changed[beside].mean()),
        spacing_s=spacing,
        slower=(interval.low or 0.0) > SLOWER * spacing,
    )


def _interval(
    t_ns: IntArray,
    changed: BoolArray,
    apart: BoolArray,
    spacing: float,
    source: str,
    status: Status,
) -> Figure:
    gaps, samples = _gaps(t_ns, changed, apart, spacing)
    if len(gaps) < LEAST_CHANGES:
        span = float(t_ns[-1] - t_ns[0]) * 1e-9
        times = int(changed.sum())
        return missing("s", f"the value changed {times} times in {rounded(span)} s")
    neighbours = float((samples == 1).mean())
    if neighbours <= FEW:
        return _counted_through(gaps, _shortest(gaps, spacing), spacing, source, status)
    repeats = 1 - len(gaps) / float(samples.sum())
    if _alternates(samples, repeats):
        return _between(gaps, spacing, source, status)
    # New values come at least as often as they are read, as far as the reads can tell; a value
    # that repeats now and then may be a slower source as well as an equal value.
    most = spacing if repeats < HARDLY_ANY else 2 * spacing
    return Figure(
        value=most, low=0.0, high=most, unit="s", n=len(gaps), status=status, source=source,
        method="bound: neighbouring reads found new values, it is no longer than this",
    )  # fmt: skip


def _gaps(
    t_ns: IntArray, changed: BoolArray, apart: BoolArray, spacing: float
) -> tuple[FloatArray, IntArray]:
    """Times in s, and numbers of samples, from each change to the next with no hole between."""
    at = np.flatnonzero(changed) + 1
    holes = np.concatenate([[0], np.cumsum(apart | (np.diff(t_ns) > HOLE * spacing * 1e9))])
    whole = holes[at[1:]] == holes[at[:-1]] if len(at) > 1 else np.empty(0, bool)
    gaps = np.diff(t_ns[at]) * 1e-9
    return gaps[whole], np.diff(at)[whole]


def _shortest(gaps: FloatArray, spacing: float) -> float:
    """The mean length of the shortest gaps: those in which no update was left out.

    They are one interval long, give or take the time between two reads.
    """
    ordered = np.sort(gaps)
    first = float(ordered[min(int(FEW * len(ordered)) + (len(ordered) > 20), len(ordered) - 1)])
    typical = float(np.median(ordered[ordered <= 1.5 * first]))
    return float(ordered[ordered <= max(first + 1.25 * spacing, 1.25 * typical)].mean())


def _counted_through(
    gaps: FloatArray, shortest: float, spacing: float, source: str, status: Status
) -> Figure:
    """The interval whose multiples the gaps are: equal values in a row hide updates."""
    length = shortest
    for _ in range(3):
        times = np.maximum(np.rint(gaps / length), 1.0)
        length = float(gaps.sum() / times.sum())
    # Ends of the whole stretch are known to one sample each.
    wide = math.hypot(half_width(gaps - times * length, 0.95), spacing / float(times.sum()))
    return Figure(
        value=length, low=max(length - wide, 0.0), high=length + wide, confidence=0.95, unit="s",
        n=len(gaps), status=status, source=source,
        method="time between changes over the number of updates that fit into it",
    )  # fmt: skip


def _alternates(samples: IntArray, repeats: float) -> bool:
    """True if new values come after one or two samples and never later.

    Repeats by chance would come three in a row now and then; a source between one and two sample
    spacings never repeats twice.
    """
    longer = float((samples > 2).mean())
    expected = repeats * repeats
    return expected * len(samples) > 5 and longer < 0.3 * expected


def _between(gaps: FloatArray, spacing: float, source: str, status: Status) -> Figure:
    length = float(gaps.mean())
    wide = half_width(gaps, 0.95) + spacing / len(gaps)
    return Figure(
        value=length, low=max(length - wide, spacing), high=max(length + wide, spacing),
        confidence=0.95, unit="s", n=len(gaps), status=status, source=source,
        method="mean time between changes; values repeat once and never twice",
    )  # fmt: skip


def written_unit(value: FloatArray) -> float:
    """The power of ten that all values are whole multiples of: 0.001 for a log in mW; 0: none.

    A few round values (20, 30, 90 W) are those of a load: a unit of more than a tenth of the least
    value is believed where many distinct values are its multiples.

    Args:
        value: Samples, NaN for failed reads, shape (n,).
    """
    known = np.unique(value[np.isfinite(value) & (value != 0)])
    if not len(known):
        return 0.0
    top = math.floor(math.log10(float(np.abs(known).min()))) + 1
    for exponent in range(top, top - MOST_DIGITS, -1):
        times = known / 10.0**exponent
        if (np.abs(times - np.rint(times)) <= 1e-9 * np.abs(times)).all():
            coarse = 10.0**exponent > COARSE * float(np.abs(known).min())
            return float(10.0 ** (exponent - (coarse and len(known) < MANY)))
    return 0.0


def resolution_of(value: FloatArray, least: float = 0.0) -> float | None:
    """The common step of values: nearly all differences are multiples of it; None where none is.

    Values are rounded to the integers of the source and a product of current and voltage, so that
    a multiple is met within a tenth of the resolution, or one integer. A few levels are those of a
    load as well as of a sensor, and show no step of it, unless they are its multiples in a row.

    Args:
        value: Samples without failed reads, shape (n,).
        least: The unit of the source's integers; what is found is no smaller.
    """
    if np.count_nonzero(np.diff(value)) < LEAST_STEPS:
        return None
    resolution = _common_step(value, least)
    if resolution is not None and few_levels(value) and not _in_a_row(value / resolution):
        resolution = None
    return resolution or least or None


def few_levels(value: FloatArray) -> bool:
    """True if values are so few distinct ones that they tell nothing of the sensor.

    Args:
        value: Samples without failed reads, shape (n,).
    """
    return len(np.unique(value)) < LEAST_LEVELS


def _in_a_row(times: FloatArray) -> bool:
    """True if these are whole multiples of a step, four in a row, or three from 0 on."""
    levels = np.unique(np.rint(times))
    whole = bool((np.abs(times - np.rint(times)) <= NEAR).all() and (np.diff(levels) == 1).all())
    return whole and len(levels) >= (LEAST_STEPS if levels[0] == 0 else LEAST_LEVELS - 1)


def _common_step(value: FloatArray, least: float) -> float | None:
    steps = np.abs(np.diff(value))
    noise = 1e-9 * float(np.abs(value).max(initial=0.0))
    steps = steps[steps > noise]
    if len(steps) < LEAST_STEPS:
        return None
    steps = steps[:: -(-len(steps) // MOST_STEPS)]
    distinct = np.unique(np.round(steps, 12))
    spread = distinct[np.linspace(0, len(distinct) - 1, BASES).astype(int)]
    bases = np.unique(np.concatenate([distinct[:BASES], spread]))
    candidates = np.unique(bases[:, None] / np.arange(1, 5))
    for candidate in candidates[candidates >= max(least, noise)][::-1]:
        step = _fitted(steps, float(candidate), max(1.01 * least, noise))
        if step is not None:
            return step
    return None


def _fitted(steps: FloatArray, resolution: float, tolerance: float) -> float | None:
    """The resolution made exact, if nearly all differences are multiples of it."""
    near = steps[steps <= (MOST_MULTIPLES + 0.5) * resolution]
    if not len(near):
        return None
    for _ in range(2):
        times = np.rint(near / resolution)
        allowed = max(min(tolerance, 0.25 * resolution), NEAR * resolution)
        off = np.abs(near - times * resolution) > allowed
        # None at all (0 times) is a voltage that moved under the same current.
        if off.mean() > 1 - ALMOST_ALL or (times > 0).sum() < max(LEAST_STEPS, len(steps) / 2):
            return None
        resolution = float(near[~off].sum() / times[~off].sum())
    return resolution
